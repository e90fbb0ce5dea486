#include "base/base.h"
#include "core/life/life.h"

enum doubt doubt_judge(int64_t since_us, int64_t told_us, int64_t off_us, int64_t now_us,
    int64_t limit_us)
{
	if (since_us == 0 || limit_us == 0) {
		return DOUBT_NONE;
	}
	if (told_us > since_us && off_us >= -DOUBT_AGREE_US && off_us <= DOUBT_AGREE_US) {
		return DOUBT_PROVEN;
	}
	return now_us - since_us < limit_us ? DOUBT_WAITS : DOUBT_NONE;
}
