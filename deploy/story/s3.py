"""Signed S3 requests (Signature Version 4), as little of it as the demo needs."""
import datetime
import hashlib
import hmac
import urllib.parse

from world import exchange


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def request(endpoint, region, access_key, secret_key, method, path, body=b""):
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    host = urllib.parse.urlparse(endpoint).netloc
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, urllib.parse.quote(path), ""] +
                          ["%s:%s" % (n, headers[n]) for n in sorted(headers)] + ["", names, digest])
    scope = "%s/%s/s3/aws4_request" % (day, region)
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = _hmac(_hmac(_hmac(_hmac(("AWS4" + secret_key).encode(), day), region), "s3"), "aws4_request")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        access_key, scope, names, signature)
    data = body if method in ("PUT", "POST") else None
    return exchange(method, endpoint + urllib.parse.quote(path), data, headers, 30)[::2]
