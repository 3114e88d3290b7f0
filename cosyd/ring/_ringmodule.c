/*
 * cosyd.ring._ring: the ring core for Python, in the limited API of 3.10 (one wheel for all versions).
 *
 * Errors of the core arrive as `Fault(status, errno)`; cosyd.ring turns them into RingError.
 */
#include "_ringmodule.h"

PyObject *ring_py_fault(PyObject *self, enum ring_status status) {
    int error = status == RING_SYSTEM ? errno : 0;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *arguments = Py_BuildValue("(ii)", (int)status, error);
    if (arguments != NULL) PyErr_SetObject(state->fault, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

PyObject *ring_py_module_fault(PyObject *module, enum ring_status status, int error) {
    State *state = PyModule_GetState(module);
    PyObject *arguments = Py_BuildValue("(ii)", (int)status, error);
    if (arguments != NULL) PyErr_SetObject(state->fault, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

PyObject *ring_py_closed(void) {
    PyErr_SetString(PyExc_ValueError, "closed");
    return NULL;
}

void *ring_py_allocate(PyTypeObject *type) {
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return make(type, 0); /* zeroed */
}

void ring_py_release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc drop = (freefunc)PyType_GetSlot(type, Py_tp_free);
    drop(self);
    Py_DECREF(type);
}

static PyMethodDef module_methods[] = {
    {"open_writer", ring_py_open_writer, METH_VARARGS, NULL},
    {"attach", ring_py_attach, METH_VARARGS, NULL},
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
    state->writer = (PyTypeObject *)PyType_FromModuleAndSpec(module, &ring_py_writer_spec, NULL);
    state->reader = (PyTypeObject *)PyType_FromModuleAndSpec(module, &ring_py_reader_spec, NULL);
    state->view = (PyTypeObject *)PyType_FromModuleAndSpec(module, &ring_py_view_spec, NULL);
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
