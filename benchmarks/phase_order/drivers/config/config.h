/* What ./configure writes; the flags of a program define what it needs. */
