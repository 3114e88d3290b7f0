/*
 * cosyd.asr.decoders._beam: the core of the beam searches for Python, in the limited API of 3.10.
 *
 * Arrays come as addresses in one table of int64, which native.py lays out like the structs of beam_core.h and
 * keeps alive; all functions work without the interpreter's lock.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "beam_core.h"

_Static_assert(sizeof(void *) == sizeof(int64_t), "a table of int64 holds addresses");
_Static_assert(sizeof(struct beam_graph) == 7 * 8, "GRAPH of native.py");
_Static_assert(sizeof(struct beam_note) == 5 * 8, "NOTE of native.py");
_Static_assert(sizeof(struct transducer_hypothesis) == 6 * 8, "HYPOTHESIS of native.py");
_Static_assert(sizeof(struct transducer_beams) == 13 * 8, "the table of TransducerCore");
_Static_assert(sizeof(struct ctc_prefix) == 11 * 8, "PREFIX of native.py");
_Static_assert(sizeof(struct ctc_beams) == 9 * 8, "the table of CtcCore");

static void *address(long long number)
{
    return (void *)(intptr_t)number;
}

static PyObject *py_transducer_pack(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long table, live, count, frame, encoder_out, frames, encoded, to_encoder, to_decoder, packed;
    if (!PyArg_ParseTuple(args, "LLLLLLLLL:transducer_pack", &table, &live, &count, &frame, &encoder_out,
                          &frames, &encoded, &to_encoder, &to_decoder))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    packed = transducer_pack(address(table), address(live), count, frame, address(encoder_out), frames, encoded,
                             address(to_encoder), address(to_decoder));
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(packed);
}

static PyObject *py_transducer_step(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long table, live, count, frame, logits, scratch, fresh, found;
    float penalty, temperature;
    if (!PyArg_ParseTuple(args, "LLLLLffLL:transducer_step", &table, &live, &count, &frame, &logits, &penalty,
                          &temperature, &scratch, &fresh))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = transducer_step(address(table), address(live), count, frame, address(logits), penalty, temperature,
                            address(scratch), address(fresh));
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

static PyObject *py_unwind(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long notes, frames, rows, width, events, counts, origins;
    if (!PyArg_ParseTuple(args, "LLLLLLL:unwind", &notes, &frames, &rows, &width, &events, &counts, &origins))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    beam_unwind(address(notes), frames, rows, width, address(events), address(counts), address(origins));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *py_ctc_chunk(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long table, scores, frames, counts, begin, end;
    double skip;
    if (!PyArg_ParseTuple(args, "LLLLLLd:ctc_chunk", &table, &scores, &frames, &counts, &begin, &end, &skip))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ctc_chunk(address(table), address(scores), frames, address(counts), begin, end, skip);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"transducer_pack", py_transducer_pack, METH_VARARGS, NULL},
    {"unwind", py_unwind, METH_VARARGS, NULL},
    {"transducer_step", py_transducer_step, METH_VARARGS, NULL},
    {"ctc_chunk", py_ctc_chunk, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "MOST", BEAM_MOST);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "cosyd.asr.decoders._beam", .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__beam(void)
{
    return PyModuleDef_Init(&definition);
}
