/* Every unit test includes this first: cmocka's own header needs setjmp and stdarg before it. */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#endif
