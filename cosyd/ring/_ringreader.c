/*
 * The reader for Python, and views of its frames. A mapping lives until its handle is closed *and* the last view
 * of it is gone *and* no thread waits in it.
 */
#include "_ringmodule.h"

/* --- View ------------------------------------------------------------------------------------------ */

static void reader_settle_close(Reader *self);

/* All frames, twice: who has an array of them makes one of a block by slicing it, the cheapest way there is. */
static PyObject *reader_view(PyObject *object, PyObject *unused) {
    (void)unused;
    Reader *reader = (Reader *)object;
    const struct ring_map *map = &reader->core.map;
    if (reader->closed) return ring_py_closed();
    State *state = PyType_GetModuleState(Py_TYPE(object));
    View *view = ring_py_allocate(state->view);
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
    ring_py_release(object);
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
    ring_py_release(object);
}

PyObject *ring_py_attach(PyObject *module, PyObject *args) {
    PyObject *path;
    unsigned long long position, leap = 0;
    if (!PyArg_ParseTuple(args, "O&K|K", PyUnicode_FSConverter, &path, &position, &leap)) return NULL;
    State *state = PyModule_GetState(module);
    Reader *self = ring_py_allocate(state->reader);
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
    return ring_py_module_fault(module, status, error);
}

/* Works after close too, as long as a view lives; afterwards there is nothing left to ask about. */
static PyObject *reader_intact(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    unsigned long long index, frames;
    if (!PyArg_ParseTuple(args, "KK", &index, &frames)) return NULL;
    if (self->core.map.header == NULL) return ring_py_closed();
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
        if (self->closed) return ring_py_closed() != NULL;
        errno = error;
    } while (status == RING_INTERRUPTED);
    return status == RING_OK || ring_py_fault((PyObject *)self, status) != NULL;
}

static PyObject *reader_wait(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    long long timeout_ns;
    bool ready = false;
    if (!PyArg_ParseTuple(args, "L", &timeout_ns)) return NULL;
    if (self->closed) return ring_py_closed();
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
    if (self->closed) return ring_py_closed();
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
    if (self->closed) return ring_py_closed();
    return PyLong_FromLong((long)ring_reader_life(&self->core));
}

static PyObject *reader_time_ns(PyObject *object, PyObject *args) {
    Reader *self = (Reader *)object;
    long long sample;
    if (!PyArg_ParseTuple(args, "L", &sample)) return NULL;
    if (self->closed) return ring_py_closed();
    return PyLong_FromLongLong(ring_time_ns(&self->core.map, (uint64_t)sample));
}

static PyObject *reader_counters(PyObject *object, PyObject *unused) {
    (void)unused;
    Reader *self = (Reader *)object;
    if (self->closed) return ring_py_closed();
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

static PyType_Slot reader_slots[] = {{Py_tp_dealloc, reader_dealloc}, {Py_tp_methods, reader_methods}, {0, NULL}};
PyType_Spec ring_py_reader_spec = {"cosyd.ring._ring.Reader", sizeof(Reader), 0, RING_PY_FLAGS, reader_slots};
static PyType_Slot view_slots[] = {{Py_tp_dealloc, view_dealloc}, {Py_bf_getbuffer, view_getbuffer}, {0, NULL}};
PyType_Spec ring_py_view_spec = {"cosyd.ring._ring.View", sizeof(View), 0, RING_PY_FLAGS, view_slots};
