/*
 * TLS for the server: TLS 1.2 and later, HTTP/1.1 by ALPN. OpenSSL releases the buffers of idle
 * connections, which leaves 14 KiB of 23 KiB for each. Nothing here blocks.
 */
/* openssl/evp.h names parameters "rand". */
#define BASE_ALLOW_BANNED
#include "base/base.h"
#include "io/httpd/httpd_priv.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

static int alpn_select(SSL *ssl UNUSED, const unsigned char **out, unsigned char *out_n,
    const unsigned char *in, unsigned in_n, void *ctx UNUSED)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *picked = NULL;

	if (SSL_select_next_proto(&picked, out_n, ours, sizeof(ours) - 1, in, in_n) !=
	    OPENSSL_NPN_NEGOTIATED) {
		return SSL_TLSEXT_ERR_NOACK;
	}
	*out = picked;
	return SSL_TLSEXT_ERR_OK;
}

static const char *tls_reason(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return reason ? reason : "not usable";
}

enum spot_rc httpd_tls_load(const char *cert, const char *key, SSL_CTX **ret, struct spot_err *err)
{
	SSL_CTX *ctx;
	enum spot_rc rc = SPOT_OK;

	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_server_method());
	if (!ctx) {
		return err_set(err, SPOT_INTERNAL, "TLS: no context: %s", tls_reason());
	}
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx,
	    SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(ctx,
	    SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
		SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_alpn_select_cb(ctx, alpn_select, NULL);
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1) {
		rc = err_set(err, SPOT_CONFIG, "TLS certificate %s: %s", cert, tls_reason());
	} else if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) {
		rc = err_set(err, SPOT_CONFIG, "TLS key %s: %s", key, tls_reason());
	} else if (SSL_CTX_check_private_key(ctx) != 1) {
		rc = err_set(err, SPOT_CONFIG, "TLS key %s does not belong to certificate %s", key,
		    cert);
	}
	if (rc != SPOT_OK) {
		SSL_CTX_free(ctx);
		return rc;
	}
	*ret = ctx;
	return SPOT_OK;
}

static enum htls want_of(SSL *ssl, int ret)
{
	int e = SSL_get_error(ssl, ret);

	if (e == SSL_ERROR_WANT_READ) {
		return HTLS_WANT_READ;
	}
	if (e == SSL_ERROR_WANT_WRITE) {
		return HTLS_WANT_WRITE;
	}
	return HTLS_FAILED;
}

enum htls httpd_tls_handshake(SSL *ssl)
{
	int r;

	ERR_clear_error();
	r = SSL_accept(ssl);
	return r == 1 ? HTLS_DONE : want_of(ssl, r);
}

int httpd_tls_read(SSL *ssl, char *p, size_t n, enum htls *ret_want)
{
	size_t got = 0;
	int r;

	ERR_clear_error();
	r = SSL_read_ex(ssl, p, n, &got);
	if (r == 1) {
		return (int)got;
	}
	if (SSL_get_error(ssl, r) == SSL_ERROR_ZERO_RETURN) {
		return 0;
	}
	*ret_want = want_of(ssl, r);
	return -1;
}

int httpd_tls_write(SSL *ssl, const char *p, size_t n, enum htls *ret_want)
{
	size_t put = 0;
	int r;

	ERR_clear_error();
	r = SSL_write_ex(ssl, p, n, &put);
	if (r == 1) {
		return (int)put;
	}
	*ret_want = want_of(ssl, r);
	return -1;
}

struct ssl_st *httpd_tls_new(struct ssl_ctx_st *ctx, int fd)
{
	SSL *ssl = SSL_new(ctx);

	if (ssl && SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ssl = NULL;
	}
	return ssl;
}

void httpd_tls_free(struct ssl_st *ssl)
{
	SSL_free(ssl);
}

void httpd_tls_unload(struct ssl_ctx_st *ctx)
{
	SSL_CTX_free(ctx);
}

bool httpd_tls_pending(const struct ssl_st *ssl)
{
	return SSL_pending(ssl) > 0;
}

void httpd_tls_shutdown(struct ssl_st *ssl)
{
	ERR_clear_error();
	SSL_shutdown(ssl);
}
