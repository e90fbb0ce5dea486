/* The sources of notices, by boot.json's provider. */
#include "base/base.h"
#include "agent/agent.h"
#include "agent/notice/notice_priv.h"

void notice_source_step(struct agent *a)
{
	/* In a Pod the source is a signal (notice_stop.c); Lambda has none. */
	static const struct {
		const char *provider;
		void (*step)(struct agent *a);
	} sources[] = { { "aws", notice_aws_step }, { "gcp", notice_gcp_step },
		{ "azure", notice_azure_step } };

	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		if (strcmp(a->boot.provider, sources[i].provider) == 0) {
			sources[i].step(a);
		}
	}
}
