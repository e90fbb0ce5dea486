#include "base/base.h"
#include "azure_int.h"

enum spot_rc azure_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a, struct spot_err *err)
{
	(void)self; (void)arena; (void)now_us; (void)a; (void)err;
	return SPOT_CONFIG;
}
