/* The entry point that libFuzzer looks for. */
#include "base/base.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	return fuzz_one(p, n);
}
