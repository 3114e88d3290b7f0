/* The writer for Python. Whoever has it may write; nothing here waits but `play`, without the GIL. */
#include "_ringmodule.h"

static void writer_end(Writer *self, bool unlink_file) {
    if (self->closed) return;
    self->closed = true;
    ring_writer_end(&self->core, unlink_file);
}

static void writer_dealloc(PyObject *object) {
    Writer *self = (Writer *)object;
    if (self->core.map.header != NULL) writer_end(self, false);
    ring_unmap(&self->core.map);
    ring_py_release(object);
}

PyObject *ring_py_open_writer(PyObject *module, PyObject *args) {
    PyObject *path;
    struct ring_spec spec;
    unsigned long long frames, start;
    if (!PyArg_ParseTuple(args, "O&IIIKK", PyUnicode_FSConverter, &path, &spec.rate_hz, &spec.channels, &spec.format,
                          &frames, &start))
        return NULL;
    State *state = PyModule_GetState(module);
    Writer *self = ring_py_allocate(state->writer);
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
    return ring_py_module_fault(module, status, error);
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
    if (self->closed) return ring_py_closed();
    if (!frames_of(self, source, &data, &frames)) return NULL;
    enum ring_status status = ring_writer_write(&self->core, data.buf, frames, ns);
    PyBuffer_Release(&data);
    if (status != RING_OK) return ring_py_fault(object, status);
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
    if (self->closed) return ring_py_closed();
    if (!frames_of(self, source, &data, &frames)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = ring_writer_play(&self->core, data.buf, frames, step, ns);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&data);
    if (status != RING_OK) return ring_py_fault(object, status);
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
    if (self->closed) return ring_py_closed();
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
        if (status != RING_OK) return ring_py_fault(object, status);
    }
    return list;
}

static PyObject *writer_skip(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    unsigned long long frames;
    if (!PyArg_ParseTuple(args, "K", &frames)) return NULL;
    if (self->closed) return ring_py_closed();
    enum ring_status status = ring_writer_skip(&self->core, frames);
    if (status != RING_OK) return ring_py_fault(object, status);
    Py_RETURN_NONE;
}

static PyObject *writer_arm(PyObject *object, PyObject *args) {
    Writer *self = (Writer *)object;
    unsigned long long anchor;
    long long ns;
    if (!PyArg_ParseTuple(args, "KL", &anchor, &ns)) return NULL;
    if (self->closed) return ring_py_closed();
    enum ring_status status = ring_writer_arm(&self->core, anchor, ns);
    if (status != RING_OK) return ring_py_fault(object, status);
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
    if (self->closed) return ring_py_closed();
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

static PyType_Slot writer_slots[] = {{Py_tp_dealloc, writer_dealloc}, {Py_tp_methods, writer_methods}, {0, NULL}};
PyType_Spec ring_py_writer_spec = {"cosyd.ring._ring.Writer", sizeof(Writer), 0, RING_PY_FLAGS, writer_slots};
