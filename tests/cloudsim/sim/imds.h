/* Signing of instance identity documents with a key made at the first use. */
#ifndef EMULATOR_IMDS_H
#define EMULATOR_IMDS_H

#include "cloudsim/sim/sim.h"

/* kind: "signature" (RSA, SHA-256), "pkcs7", "rsa2048"; NULL for anything else. */
const char *imds_signature(struct sim *s, struct arena *a, const char *kind, const char *document);
const char *imds_certificate(struct sim *s, struct arena *a); /* PEM */
void imds_free(struct sim *s);

#endif
