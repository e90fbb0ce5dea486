#include "base/base.h"
#include "azure_int.h"

enum spot_step azure_check(void *self, struct spot_call *c, struct spot_check *a)
{
	(void)self; (void)a;
	return call_fail(c, SPOT_CONFIG, NULL, "azure check: not configured");
}
