/*
 * cosyd.ring._ring: the ring core for Python, in the limited API of 3.10 (one wheel for all versions).
 *
 * Errors of the core arrive as `Fault(status, errno)`; cosyd.ring turns them into RingError.
 * A mapping lives until its handle is closed *and* the last view of it is gone *and* no thread waits in it.
 */
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

static PyObject *fault(PyObject *self, enum ring_status status) {
    int error = status == RING_SYSTEM ? errno : 0;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *arguments = Py_BuildValue("(ii)", (int)status, error);
    if (arguments != NULL) PyErr_SetObject(state->fault, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static PyObject *module_fault(PyObject *module, enum ring_status status, int error) {
    State *state = PyModule_GetState(module);
    PyObject *arguments = Py_BuildValue("(ii)", (int)status, error);
    if (arguments != NULL) PyErr_SetObject(state->fault, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static PyObject *closed_error(void) {
    PyErr_SetString(PyExc_ValueError, "closed");
    return NULL;
}

static void *allocate(PyTypeObject *type) {
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return make(type, 0); /* zeroed */
}

static void release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc drop = (freefunc)PyType_GetSlot(type, Py_tp_free);
    drop(self);
    Py_DECREF(type);
}

/* --- Writer ---------------------------------------------------------------------------------------- */

static void writer_end(Writer *self, bool unlink_file) {
    if (self->closed) return;
    self->closed = true;
    ring_writer_end(&self->core, unlink_file);
}

static void writer_dealloc(PyObject *object) {
    Writer *self = (Writer *)object;
    if (self->core.map.header != NULL) writer_end(self, false);
    ring_unmap(&self->core.map);
    release(object);
}

static PyObject *open_writer(PyObject *module, PyObject *args) {
    PyObject *path;
    struct ring_spec spec;
    unsigned long long frames, start;
    if (!PyArg_ParseTuple(args, "O&IIIKK", PyUnicode_FSConverter, &path, &spec.rate_hz, &spec.channels, &spec.format,
                          &frames, &start))
        return NULL;
    State *state = PyModule_GetState(module);
    Writer *self = allocate(state->writer);
    if (self == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    enum ring_status status = ring_writer_open(&self->core, PyBytes_AsString(path), &spec, frames, start);
    int error = status == RING_SYSTEM ? errno : 0;
    Py_DECREF(path);
    if (status == RING_OK) return (PyObject *)self;
    self->core.map.header = NULL; /* the core has cleaned up */
    Py_DECREF(self);
    return module_fault(module, status, error);
}

/* Bytes are taken as they are; elements must be of the ring's sample type, so that floats never pass as integers. */
static bool elements_fit(const Py_buffer *data, const struct ring_map *map) {
    if (data->itemsize == 1) return true;
    const char *format = data->format != NULL ? data->format : "B";
    while (*format != '\0' && strchr("@=<", *format) != NULL) format++;
    const char *kinds = map->spec.format == RING_F32 ? "f" : "hil";
    Py_ssize_t sample = map->frame_bytes / map->spec.channels;
    return format[0] != '\0' && format[1] == '\0' && strchr(kinds, format[0]) != NULL && data->itemsize == sample;
}

/* The whole frames of a buffer; false with an exception where it has none of the ring's. */
static bool frames_of(Writer *self, PyObject *source, Py_buffer *data, uint64_t *frames) {
    const struct ring_map *map = &self->core.map;
    if (PyObject_GetBuffer(source, data, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) return false;
    *frames = (uint64_t)data->len / map->frame_bytes;
    if (!elements_fit(data, map))
        PyErr_SetString(PyExc_TypeError, "elements are not of the ring's sample format");
    else if (data->len % map->frame_bytes != 0)
        PyErr_Format(PyExc_TypeError, "%zd bytes are not whole frames of %u bytes", data->len, map->frame_bytes);
    else
        return true;
    PyBuffer_Release(data);
    return false;
}

static PyObject *writer_write(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    PyObject *source;
    long long ns = -1;
    Py_buffer data;
    uint64_t frames;
    if (!PyArg_ParseTuple(args, "O|L", &source, &ns)) return NULL;
    if (self->closed) return closed_error();
    if (!frames_of(self, source, &data, &frames)) return NULL;
    enum ring_status status = ring_writer_write(&self->core, data.buf, frames, ns);
    PyBuffer_Release(&data);
    if (status != RING_OK) return fault(object, status);
    return PyLong_FromUnsignedLongLong(frames);
}

static PyObject *writer_play(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    PyObject *source;
    unsigned long long step;
    long long ns;
    Py_buffer data;
    uint64_t frames;
    enum ring_status status;
    if (!PyArg_ParseTuple(args, "OKL", &source, &step, &ns)) return NULL;
    if (self->closed) return closed_error();
    if (!frames_of(self, source, &data, &frames)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = ring_writer_play(&self->core, data.buf, frames, step, ns);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&data);
    if (status != RING_OK) return fault(object, status);
    return PyLong_FromUnsignedLongLong(frames);
}

/* For cosyd.bench: `rounds` writes of the same bytes, each timed alone, without Python between them; `pause_ns`
 * of sleep before each, as between the blocks of a device. */
static PyObject *writer_time_writes(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    const char *data;
    Py_ssize_t length;
    Py_ssize_t rounds;
    long long pause_ns = 0;
    if (!PyArg_ParseTuple(args, "y#n|L", &data, &length, &rounds, &pause_ns)) return NULL;
    if (self->closed) return closed_error();
    uint64_t frames = (uint64_t)length / self->core.map.frame_bytes;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; i < rounds && list != NULL; i++) {
        if (pause_ns > 0) {
            Py_BEGIN_ALLOW_THREADS;
            ring_sleep_until(ring_now_ns() + pause_ns);
            Py_END_ALLOW_THREADS;
        }
        int64_t begun = ring_now_ns();
        enum ring_status status = ring_writer_write(&self->core, data, frames, begun);
        PyObject *taken = PyLong_FromLongLong(ring_now_ns() - begun);
        if (status != RING_OK || taken == NULL || PyList_Append(list, taken) != 0) Py_CLEAR(list);
        Py_XDECREF(taken);
        if (status != RING_OK) return fault(object, status);
    }
    return list;
}

static PyObject *writer_skip(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    unsigned long long frames;
    if (!PyArg_ParseTuple(args, "K", &frames)) return NULL;
    if (self->closed) return closed_error();
    enum ring_status status = ring_writer_skip(&self->core, frames);
    if (status != RING_OK) return fault(object, status);
    Py_RETURN_NONE;
}

static PyObject *writer_arm(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    unsigned long long anchor;
    long long ns;
    if (!PyArg_ParseTuple(args, "KL", &anchor, &ns)) return NULL;
    if (self->closed) return closed_error();
    enum ring_status status = ring_writer_arm(&self->core, anchor, ns);
    if (status != RING_OK) return fault(object, status);
    Py_RETURN_NONE;
}

static PyObject *writer_resumed(PyObject *object, PyObject *unused) {
    (void)unused;
    uint64_t index = ring_writer_resumed(&((Writer *)object)->core);
    if (index == RING_NOT_YET) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(index);
}

static PyObject *writer_count_overrun(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    unsigned long long frames;
    if (!PyArg_ParseTuple(args, "K", &frames)) return NULL;
    if (self->closed) return closed_error();
    ring_writer_count_overrun(&self->core, frames);
    Py_RETURN_NONE;
}

static PyObject *writer_readers(PyObject *object, PyObject *unused) {
    (void)unused;
    struct ring_reader_info infos[RING_READERS];
    unsigned count = ring_writer_readers(&((Writer *)object)->core, infos);
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; i < count && list != NULL; i++) {
        PyObject *entry = Py_BuildValue("(LKK)", (long long)infos[i].pid, (unsigned long long)infos[i].position,
                                        (unsigned long long)infos[i].lost);
        if (entry == NULL || PyList_Append(list, entry) != 0) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static unsigned long long load(const ring_u64 *word) { return atomic_load_explicit(word, memory_order_acquire); }

static PyObject *writer_counters(PyObject *object, PyObject *unused) {
    (void)unused;
    const struct ring_header *header = ((Writer *)object)->core.map.header;
    return Py_BuildValue("(KIKKK)", load(&header->write), (unsigned)atomic_load(&header->epoch),
                         load(&header->overruns), load(&header->overrun_frames), load(&header->callbacks));
}

static PyObject *writer_constants(PyObject *object, PyObject *unused) {
    (void)unused;
    Writer *self = (Writer *)object;
    return Py_BuildValue("(KOKK)", (unsigned long long)self->core.map.capacity,
                         self->core.adopted ? Py_True : Py_False,
                         (unsigned long long)(uintptr_t)&ring_portaudio_callback,
                         (unsigned long long)(uintptr_t)&self->core);
}

static PyObject *writer_last_ns(PyObject *object, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(ring_clock_read(&((Writer *)object)->core.map).ns);
}

static PyObject *writer_close(PyObject *object, PyObject *args) {
    int unlink_file;
    if (!PyArg_ParseTuple(args, "p", &unlink_file)) return NULL;
    writer_end((Writer *)object, unlink_file != 0);
    Py_RETURN_NONE;
}

static PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_VARARGS, NULL},
    {"play", writer_play, METH_VARARGS, NULL},
    {"time_writes", writer_time_writes, METH_VARARGS, NULL},
    {"skip", writer_skip, METH_VARARGS, NULL},
    {"arm", writer_arm, METH_VARARGS, NULL},
    {"resumed", writer_resumed, METH_NOARGS, NULL},
    {"count_overrun", writer_count_overrun, METH_VARARGS, NULL},
    {"readers", writer_readers, METH_NOARGS, NULL},
    {"counters", writer_counters, METH_NOARGS, NULL},
    {"constants", writer_constants, METH_NOARGS, NULL},
    {"last_ns", writer_last_ns, METH_NOARGS, NULL},
    {"close", writer_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* --- View ------------------------------------------------------------------------------------------ */

static void reader_settle_close(Reader *self);

/* All frames, twice: who has an array of them makes one of a block by slicing it, the cheapest way there is. */
static PyObject *reader_view(PyObject *object, PyObject *unused) {
    (void)unused;
    Reader *reader = (Reader *)object;
    const struct ring_map *map = &reader->core.map;
    if (reader->closed) return closed_error();
    State *state = PyType_GetModuleState(Py_TYPE(object));
    View *view = allocate(state->view);
    if (view == NULL) return NULL;
    Py_INCREF(object);
    reader->views++;
    view->reader = reader;
    view->data = map->data;
    view->bytes = (Py_ssize_t)(2 * map->capacity * map->frame_bytes);
    return (PyObject *)view;
}

static int view_getbuffer(PyObject *object, Py_buffer *buffer, int flags) {
    View *self = (View *)object;
    return PyBuffer_FillInfo(buffer, object, (void *)self->data, self->bytes, 1, flags);
}

static void view_dealloc(PyObject *object) {
    Reader *reader = ((View *)object)->reader;
    reader->views--;
    reader_settle_close(reader);
    Py_DECREF((PyObject *)reader);
    release(object);
}

/* --- Reader ---------------------------------------------------------------------------------------- */

/* Does of closing what can be done by now. */
static void reader_settle_close(Reader *self) {
    if (!self->closed || self->waits > 0) return;
    if (!self->detached) ring_reader_detach(&self->core);
    self->detached = true;
    if (self->views == 0) ring_unmap(&self->core.map);
}

static void reader_dealloc(PyObject *object) {
    Reader *self = (Reader *)object;
    if (self->core.map.header != NULL) {
        self->closed = true;
        reader_settle_close(self);
    }
    release(object);
}

static PyObject *attach(PyObject *module, PyObject *args) {
    PyObject *path;
    unsigned long long position, leap = 0;
    if (!PyArg_ParseTuple(args, "O&K|K", PyUnicode_FSConverter, &path, &position, &leap)) return NULL;
    State *state = PyModule_GetState(module);
    Reader *self = allocate(state->reader);
    if (self == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    enum ring_status status = ring_reader_attach(&self->core, PyBytes_AsString(path), position, leap);
    int error = status == RING_SYSTEM ? errno : 0;
    Py_DECREF(path);
    if (status == RING_OK) return (PyObject *)self;
    self->core.map.header = NULL;
    Py_DECREF(self);
    return module_fault(module, status, error);
}

/* Works after close too, as long as a view lives; afterwards there is nothing left to ask about. */
static PyObject *reader_intact(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    unsigned long long index, frames;
    if (!PyArg_ParseTuple(args, "KK", &index, &frames)) return NULL;
    if (self->core.map.header == NULL) return closed_error();
    return PyBool_FromLong(ring_reader_intact(&self->core, index, frames));
}

static enum ring_status wait_unlocked(Reader *self, int64_t deadline, bool *ready) {
    enum ring_status status;
    self->waits++;
    Py_BEGIN_ALLOW_THREADS
    status = ring_reader_wait(&self->core, deadline, ready);
    Py_END_ALLOW_THREADS
    self->waits--;
    return status;
}

/* A signal ends the sleep; unless its handler raises, we go on for the rest of the time. False with an exception. */
static bool wait_for_frames(Reader *self, int64_t timeout_ns, bool *ready) {
    int64_t now = ring_now_ns();
    int64_t deadline = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
    enum ring_status status;
    do {
        status = wait_unlocked(self, deadline, ready);
        int error = errno;
        reader_settle_close(self);
        if (PyErr_CheckSignals() != 0) return false;
        if (self->closed) return closed_error() != NULL;
        errno = error;
    } while (status == RING_INTERRUPTED);
    return status == RING_OK || fault((PyObject *)self, status) != NULL;
}

static PyObject *reader_wait(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    long long timeout_ns;
    bool ready = false;
    if (!PyArg_ParseTuple(args, "L", &timeout_ns)) return NULL;
    if (self->closed) return closed_error();
    if (!wait_for_frames(self, timeout_ns, &ready)) return NULL;
    return PyBool_FromLong(ready);
}

/* With a time-out it waits, too: after a sleep the caches are cold, and each way back into Python costs 10 us. */
static PyObject *reader_read(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    unsigned long long most;
    long long timeout_ns = 0;
    bool ready;
    if (!PyArg_ParseTuple(args, "K|L", &most, &timeout_ns)) return NULL;
    if (self->closed) return closed_error();
    if (timeout_ns > 0 && !wait_for_frames(self, timeout_ns, &ready)) return NULL;
    struct ring_block block = ring_reader_read(&self->core, most);
    if (block.frames == 0) Py_RETURN_NONE;
    uint64_t start = block.index % self->core.map.capacity;
    return Py_BuildValue("(KKKKK)", (unsigned long long)block.index, (unsigned long long)start,
                         (unsigned long long)(start + block.frames), (unsigned long long)block.lost,
                         (unsigned long long)block.gap);
}

static PyObject *reader_state(PyObject *object, PyObject *unused) {
    (void)unused;
    Reader *self = (Reader *)object;
    if (self->closed) return closed_error();
    return PyLong_FromLong((long)ring_reader_life(&self->core));
}

static PyObject *reader_time_ns(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    long long sample;
    if (!PyArg_ParseTuple(args, "L", &sample)) return NULL;
    if (self->closed) return closed_error();
    return PyLong_FromLongLong(ring_time_ns(&self->core.map, (uint64_t)sample));
}

static PyObject *reader_counters(PyObject *object, PyObject *unused) {
    (void)unused;
    Reader *self = (Reader *)object;
    if (self->closed) return closed_error();
    const struct ring_header *header = self->core.map.header;
    return Py_BuildValue("(KKKIO)", (unsigned long long)self->core.position, load(&header->write),
                         (unsigned long long)self->core.lost, (unsigned)atomic_load(&header->epoch),
                         atomic_load(&header->state) == RING_OPEN ? Py_True : Py_False);
}

static PyObject *reader_constants(PyObject *object, PyObject *unused) {
    (void)unused;
    const struct ring_map *map = &((Reader *)object)->core.map;
    return Py_BuildValue("(IIIK)", map->spec.rate_hz, map->spec.channels, map->spec.format,
                         (unsigned long long)map->capacity);
}

static PyObject *reader_close(PyObject *object, PyObject *unused) {
    (void)unused;
    Reader *self = (Reader *)object;
    if (self->closed) Py_RETURN_NONE;
    self->closed = true;
    if (self->waits > 0) ring_reader_interrupt(&self->core);
    reader_settle_close(self);
    Py_RETURN_NONE;
}

static PyMethodDef reader_methods[] = {
    {"view", reader_view, METH_NOARGS, NULL},
    {"read", reader_read, METH_VARARGS, NULL},
    {"intact", reader_intact, METH_VARARGS, NULL},
    {"wait", reader_wait, METH_VARARGS, NULL},
    {"state", reader_state, METH_NOARGS, NULL},
    {"time_ns", reader_time_ns, METH_VARARGS, NULL},
    {"counters", reader_counters, METH_NOARGS, NULL},
    {"constants", reader_constants, METH_NOARGS, NULL},
    {"close", reader_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* --- the module ------------------------------------------------------------------------------------ */

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION)

static PyType_Slot writer_slots[] = {{Py_tp_dealloc, writer_dealloc}, {Py_tp_methods, writer_methods}, {0, NULL}};
static PyType_Slot reader_slots[] = {{Py_tp_dealloc, reader_dealloc}, {Py_tp_methods, reader_methods}, {0, NULL}};
static PyType_Slot view_slots[] = {{Py_tp_dealloc, view_dealloc}, {Py_bf_getbuffer, view_getbuffer}, {0, NULL}};

static PyType_Spec writer_spec = {"cosyd.ring._ring.Writer", sizeof(Writer), 0, FLAGS, writer_slots};
static PyType_Spec reader_spec = {"cosyd.ring._ring.Reader", sizeof(Reader), 0, FLAGS, reader_slots};
static PyType_Spec view_spec = {"cosyd.ring._ring.View", sizeof(View), 0, FLAGS, view_slots};

static PyMethodDef module_methods[] = {
    {"open_writer", open_writer, METH_VARARGS, NULL},
    {"attach", attach, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static const struct {
    const char *name;
    long value;
} constants[] = {
    {"S16", RING_S16}, {"S24", RING_S24}, {"S32", RING_S32}, {"F32", RING_F32},
    {"SYSTEM", RING_SYSTEM}, {"NOT_FOUND", RING_NOT_FOUND}, {"BUSY", RING_BUSY},
    {"NOT_A_RING", RING_NOT_A_RING}, {"OTHER_VERSION", RING_OTHER_VERSION}, {"NO_SLOT", RING_NO_SLOT},
    {"BAD_SPEC", RING_BAD_SPEC}, {"IN_USE", RING_IN_USE},
    {"LIVE", RING_LIFE_LIVE}, {"CLOSED", RING_LIFE_CLOSED}, {"DEAD", RING_LIFE_DEAD},
    {"REPLACED", RING_LIFE_REPLACED},
    {"MAX_READERS", RING_READERS}, {"VISIBLE_GAPS", RING_GAPS - 1},
};

static int module_exec(PyObject *module) {
    State *state = PyModule_GetState(module);
    state->fault = PyErr_NewException("cosyd.ring._ring.Fault", NULL, NULL);
    state->writer = (PyTypeObject *)PyType_FromModuleAndSpec(module, &writer_spec, NULL);
    state->reader = (PyTypeObject *)PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    state->view = (PyTypeObject *)PyType_FromModuleAndSpec(module, &view_spec, NULL);
    if (state->fault == NULL || state->writer == NULL || state->reader == NULL || state->view == NULL) return -1;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) != 0) return -1;
    if (PyModule_AddObjectRef(module, "Fault", state->fault) != 0) return -1;
    return PyModule_AddType(module, state->writer) || PyModule_AddType(module, state->reader) ? -1 : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    State *state = PyModule_GetState(module);
    Py_VISIT(state->fault);
    Py_VISIT(state->writer);
    Py_VISIT(state->reader);
    Py_VISIT(state->view);
    return 0;
}

static int module_clear(PyObject *module) {
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->fault);
    Py_CLEAR(state->writer);
    Py_CLEAR(state->reader);
    Py_CLEAR(state->view);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "cosyd.ring._ring", NULL, sizeof(State), module_methods,
    module_slots, module_traverse, module_clear, NULL,
};

PyMODINIT_FUNC PyInit__ring(void) { return PyModuleDef_Init(&definition); }
