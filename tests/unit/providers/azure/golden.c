#include "base/base.h"
#include "golden.h"

#include "azure.h"
#include "base/str.h"

#define SUBNET                                                                                     \
	"/subscriptions/" GOLDEN_SUB                                                               \
	"/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/gpu"

const char *const golden_env[] = {"AZURE_CLIENT_SECRET", "golden~client.secret/0123456789", NULL};
const char *const golden_settings[] = {"subscription",
				       GOLDEN_SUB,
				       "tenant",
				       "contoso.example",
				       "client_id",
				       "66666666-7777-8888-9999-000000000000",
				       "ssh_public_key",
				       "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 golden",
				       "subnet.eastus2",
				       SUBNET,
				       NULL};
static const struct drive_try token[] = {
    {.method = "POST",
     .url = "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token",
     .status = 200,
     .reply =
	 "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"" GOLDEN_TOKEN "\"}"}};

static const char *golden_path(struct arena *a, const char *name)
{
	const char *dir = getenv("GOLDEN_DIR");

	if (dir == NULL)
		fail_msg("GOLDEN_DIR is not set: run by meson test");
	return arena_printf(a, "%s/%s.txt", dir, name);
}

/* "Name: value" lines up to an empty one; returns what follows. */
static const char *reply_headers(struct arena *a, struct drive_try *t, const char *p)
{
	for (size_t i = 0; *p != '\0' && *p != '\n'; i++) {
		size_t n = strcspn(p, "\n");

		assert_true(i < DRIVE_WORDS);
		t->reply_headers[i] = arena_strndup(a, p, n);
		p += n + (p[n] == '\n');
	}
	return *p == '\n' ? p + 1 : p;
}

static void section(struct golden_file *f, const char *head, const char *text)
{
	struct drive_try *t = &f->tries[f->n];
	int64_t status;

	assert_true(f->n < GOLDEN_EXCHANGES);
	if (str_prefix(head, "request")) {
		f->requests[f->n] = text;
	} else if (str_prefix(head, "read ")) {
		t->read = head + 5;
	} else if (str_prefix(head, "reply ")) {
		assert_true(parse_i64(head + 6, 100, 599, &status));
		t->status = (int)status;
		t->reply = reply_headers(f->arena, t, text);
		t->reply_n = strlen(t->reply);
		f->n++;
	} else if (str_prefix(head, "result")) {
		f->result = text;
	} else {
		fail_msg("golden file: unknown section '%s'", head);
	}
}

void golden_load(struct golden_file *f, const char *name)
{
	const char *p;

	memset(f, 0, sizeof(*f));
	f->arena = arena_new(0);
	p = drive_file(f->arena, golden_path(f->arena, name)).p;
	p = strstr(p, "--- ");
	while (p != NULL) {
		const char *head_end = strchr(p, '\n'), *next;

		assert_non_null(head_end);
		next = strstr(head_end, "\n--- ");
		section(f, arena_strndup(f->arena, p + 4, (size_t)(head_end - p - 4)),
			next != NULL && next > head_end
			    ? arena_strndup(f->arena, head_end + 1, (size_t)(next - head_end - 1))
			: next == head_end ? ""
					   : arena_strdup(f->arena, head_end + 1));
		p = next != NULL ? next + 1 : NULL;
	}
}

void golden_free(struct golden_file *f)
{
	arena_free(f->arena);
}

void golden_open(struct drive *d, const struct golden_case *k, const struct golden_file *f)
{
	drive_init(d, &azure_ops, k->env != NULL ? k->env : golden_env,
		   k->settings != NULL ? k->settings : golden_settings);
	d->now_us = GOLDEN_NOW_US;
	if (!k->no_keys) {
		drive_script(d, token, ARRAY_LEN(token));
		assert_int_equal(drive_run(d, DRIVE_AUTH, NULL), SPOT_DONE);
	}
	drive_script(d, f->tries, f->n);
}
