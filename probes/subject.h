/*
 * The file whose algorithms are measured, so that what is timed is what ships. First of all: what
 * records its messages must stand before it.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#ifdef ATALL_RECORD
#include "record.h"
#endif
#include ATALL_SOURCE

#endif
