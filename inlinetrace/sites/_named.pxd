# cython: language_level=3
"""Named tuples made at the speed of tuples."""

cdef extern from *:
    """
    /* What tuple.__new__(type, items) does, without the look-up of the named tuple's own Python __new__. */
    static inline PyObject *inlinetrace_named(PyObject *type, PyObject *items) {
        PyObject *arguments = PyTuple_Pack(1, items);
        PyObject *made;
        if (arguments == NULL)
            return NULL;
        made = PyTuple_Type.tp_new((PyTypeObject *)type, arguments, NULL);
        Py_DECREF(arguments);
        return made;
    }
    """
    object named "inlinetrace_named"(object type, tuple items)
