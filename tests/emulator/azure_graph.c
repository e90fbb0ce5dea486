/* Resource Graph. */
#include "base/base.h"
#include "azure.h"

void az_graph(struct az_call *c)
{
	az_fail(c, 400, "BadRequest", "The query is not served.");
}
