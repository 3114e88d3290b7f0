/*
 * What the files of the Python module share: its objects, and how errors become exceptions.
 */
#ifndef COSYD_RINGMODULE_H
#define COSYD_RINGMODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <string.h>

#include "ring_core.h"

/*
 * The buffer protocol joined the limited API in 3.11 with the very layout that it has in 3.10, where the
 * functions and the two slots exist too. Python 3.10 gets no more changes, so its layout is as fixed as the
 * later ones: we declare for 3.10 what its headers hide.
 */
#if Py_LIMITED_API + 0 < 0x030B0000
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer *view, PyObject *object, void *at, Py_ssize_t length, int readonly,
                                  int flags);
#define Py_bf_getbuffer 1
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#endif

typedef struct {
    PyObject *fault;
    PyTypeObject *writer;
    PyTypeObject *reader;
    PyTypeObject *view;
} State;

typedef struct {
    PyObject_HEAD
    struct ring_writer core;
    bool closed;
} Writer;

typedef struct {
    PyObject_HEAD
    struct ring_reader core;
    bool closed;
    bool detached;
    unsigned waits; /* threads inside ring_reader_wait */
    size_t views;
} Reader;

typedef struct {
    PyObject_HEAD
    Reader *reader;
    const unsigned char *data;
    Py_ssize_t bytes;
} View;

#define RING_PY_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION)

/* A word of the header that the other side writes. */
static inline unsigned long long load(const ring_u64 *word) { return atomic_load_explicit(word, memory_order_acquire); }

/* An exception `Fault(status, errno)`; NULL, to be returned. */
PyObject *ring_py_fault(PyObject *self, enum ring_status status);
PyObject *ring_py_module_fault(PyObject *module, enum ring_status status, int error);

/* ValueError of a handle that was closed; NULL. */
PyObject *ring_py_closed(void);

/* An object of the type, zeroed; and what its deallocator ends with. */
void *ring_py_allocate(PyTypeObject *type);
void ring_py_release(PyObject *self);

PyObject *ring_py_open_writer(PyObject *module, PyObject *args);
PyObject *ring_py_attach(PyObject *module, PyObject *args);

extern PyType_Spec ring_py_writer_spec, ring_py_reader_spec, ring_py_view_spec;

#endif
