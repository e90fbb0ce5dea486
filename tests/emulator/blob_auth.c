/* Blob storage: who may do what. */
#include "base/base.h"
#include "blob.h"

bool blob_authorized(struct blob_call *b)
{
	blob_fail(b, 403, "AuthenticationFailed", "Server failed to authenticate the request.");
	return false;
}
#define REFUSED(name) \
	void name(struct blob_call *b) \
	{ \
		blob_fail(b, 501, "UnsupportedOperation", "The operation is not served."); \
	}
REFUSED(blob_user_key)
REFUSED(blob_put)
REFUSED(blob_delete)
REFUSED(blob_put_block)
REFUSED(blob_put_list)
REFUSED(blob_get_list)
REFUSED(blob_list)
REFUSED(blob_list_containers)
void blob_read(struct blob_call *b, bool head)
{
	(void)head;
	blob_user_key(b);
}
void az_user_key_drop(struct az_user_key *k)
{
	free(k);
}
