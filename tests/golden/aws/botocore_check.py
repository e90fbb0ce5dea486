#!/usr/bin/env python3
"""Second opinion on the golden exchanges: the vendor's own models, serializer, signer and parsers.

For each request: decode the body with the service model, validate it, serialize it again with botocore
and compare, and compute the signature with botocore's signer. For each reply: parse it with botocore's
parser and complain about members that the model does not know.
Exit status 0 = all agree, 77 = botocore is not installed.
"""
import json
import pathlib
import re
import sys
from urllib.parse import parse_qsl

try:
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
    import botocore.parsers
    import botocore.serialize
    import botocore.session
    import botocore.validate
except ImportError:
    print("botocore is not installed: skipped")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
POLICY = HERE.parents[2] / "deploy" / "iam" / "aws-policy.json"
# Calls that another action permits, or nobody (a role's trust policy does).
ALIASES = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}
UNNEEDED = {"sts:AssumeRole", "sts:AssumeRoleWithWebIdentity"}
SERVICES = {"ec2": "ec2", "sts": "sts", "pricing": "pricing", "ssm": "ssm", "sqs": "sqs", "servicequotas": "service-quotas"}
KEYS = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
SESSION = botocore.session.Session()


def sections(text):
    for part in re.split(r"(?m)^--- ", text)[1:]:
        head, _, body = part.partition("\n")
        yield head, body.removesuffix("\n")


def http(text):
    head, _, body = text.partition("\n\n")
    lines = head.split("\n")
    first = lines[0].split(" ") if lines[0] else ["", ""]
    headers = dict(line.split(": ", 1) for line in lines[1:])
    return first, headers, body


def wire_name(shape, member, default, plural):
    """The ec2 protocol's rule; for "query" the location name or the member's."""
    s = member.serialization
    if plural == "ec2":
        if "queryName" in s:
            return s["queryName"]
        if "name" in s:
            return s["name"][0].upper() + s["name"][1:]
        return default
    return s.get("name", default)


# Types come before the model that names them.
OPEN_ENUMS = {"InstanceType"}


def scalar(shape, value):
    if shape.type_name == "string" and shape.enum and shape.name not in OPEN_ENUMS:
        assert value in shape.enum, f"{value} is not in the model's {shape.name}"
    if shape.type_name in ("integer", "long"):
        return int(value)
    if shape.type_name in ("float", "double"):
        return float(value)
    if shape.type_name == "boolean":
        assert value in ("true", "false"), value
        return value == "true"
    return value


def decode(shape, fields, prefix, protocol):
    """Takes what belongs to prefix out of fields."""
    if shape.type_name == "structure":
        out = {}
        for name, member in shape.members.items():
            key = prefix + wire_name(shape, member, name, protocol)
            value = decode_at(member, fields, key, protocol)
            if value is not None:
                out[name] = value
        return out or None
    raise AssertionError(shape.type_name)


def decode_at(shape, fields, key, protocol):
    if shape.type_name == "structure":
        return decode(shape, fields, key + ".", protocol)
    if shape.type_name == "list":
        items = []
        while True:
            at = f"{key}.{len(items) + 1}"
            item = decode_at(shape.member, fields, at, protocol)
            if item is None:
                return items or None
            items.append(item)
    if key not in fields:
        return None
    return scalar(shape, fields.pop(key))


def operation(service, headers, body):
    if "x-amz-target" in headers:
        return headers["x-amz-target"].split(".")[1]
    return dict(parse_qsl(body, keep_blank_values=True))["Action"]


def check_request(headers, body, model, op):
    shape = op.input_shape
    protocol = model.metadata["protocol"]
    serializer = botocore.serialize.create_serializer(protocol)
    if protocol == "json":
        params = json.loads(body)
    else:
        fields = dict(parse_qsl(body, keep_blank_values=True, strict_parsing=True))
        assert fields.pop("Action") == op.name
        assert fields.pop("Version") == model.api_version
        params = (decode(shape, fields, "", protocol) if shape else None) or {}
        assert not fields, f"{op.name}: botocore does not know {sorted(fields)}"
    if shape:
        report = botocore.validate.ParamValidator().validate(params, shape)
        assert not report.has_errors(), report.generate_report()
    again = serializer.serialize_to_request(params, op)
    if protocol == "json":
        assert json.loads(again["body"]) == params
        assert again["headers"]["X-Amz-Target"] == headers["x-amz-target"]
        assert again["headers"]["Content-Type"] == headers["content-type"]
    else:
        mine = dict(parse_qsl(body, keep_blank_values=True))
        theirs = {k: str(v) for k, v in again["body"].items()}
        assert mine == theirs, f"{op.name}: {set(mine.items()) ^ set(theirs.items())}"


def check_signature(first, headers, body):
    auth = headers["authorization"]
    key, day, region, service = re.match(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request", auth).groups()
    if key not in KEYS:
        return
    creds = botocore.credentials.Credentials(key, KEYS[key], headers.get("x-amz-security-token"))
    signer = botocore.auth.SigV4Auth(creds, service, region)
    unsigned = {k: v for k, v in headers.items() if k != "authorization"}
    request = botocore.awsrequest.AWSRequest(first[0], first[1], unsigned, body.encode())
    request.context["timestamp"] = headers["x-amz-date"]
    request.context["signing"] = {}
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signature = signer.signature(text, request)
    assert auth.endswith("Signature=" + signature), f"signature should be {signature}"


def known(shape, tree, path):
    """Every element of a parsed JSON reply must be in the model."""
    if shape.type_name == "structure":
        for name, value in tree.items():
            assert name in shape.members, f"{path}.{name} is not in the model"
            known(shape.members[name], value, f"{path}.{name}")
    elif shape.type_name == "list":
        for value in tree:
            known(shape.member, value, path + "[]")


def check_reply(status, headers, body, model, op):
    parser = botocore.parsers.create_parser(model.metadata["protocol"])
    parsed = parser.parse({"status_code": status, "headers": headers, "body": body.encode()}, op.output_shape)
    if status >= 300:
        assert parsed["Error"]["Code"], "an error reply without a code"
        return
    assert "Error" not in parsed, parsed["Error"]
    content = {k: v for k, v in parsed.items() if k not in ("ResponseMetadata", "NextToken")}
    assert content or op.output_shape is None, f"{op.name}: botocore reads nothing from the reply"
    if model.metadata["protocol"] == "json":
        known(op.output_shape, json.loads(body), op.name)


def permitted():
    actions = set()
    for statement in json.loads(POLICY.read_text())["Statement"]:
        action = statement["Action"]
        actions.update([action] if isinstance(action, str) else action)
    return actions


def check_policy(service, name, actions):
    """The policy that operators apply permits what is sent."""
    action = f"{service}:{name}"
    action = ALIASES.get(action, action)
    assert action in UNNEEDED or action in actions, f"{action} is not in {POLICY.name}"


def check_file(path):
    checked = 0
    actions = permitted()
    pending = None
    for head, text in sections(path.read_text()):
        if head == "request":
            first, headers, body = http(text)
            pending = None
            if "content-type" not in headers:
                continue  # not one of the vendor's APIs: metadata, container, advisor
            if "authorization" in headers:
                service = headers["authorization"].split("/")[3]
                check_signature(first, headers, body)
            else:
                service = re.match(r"https://([a-z]+)\.", first[1]).group(1)
            model = SESSION.get_service_model(SERVICES[service])
            op = model.operation_model(operation(service, headers, body))
            check_request(headers, body, model, op)
            check_policy(service, op.name, actions)
            pending = (model, op)
            checked += 1
        elif head.startswith("reply ") and pending:
            head_text, _, body = text.partition("\n\n")
            headers = dict(line.split(": ", 1) for line in head_text.split("\n") if line)
            check_reply(int(head[6:]), headers, body, *pending)
            pending = None
    return checked


def main():
    total = failed = 0
    for path in sorted(HERE.glob("*.txt")):
        try:
            total += check_file(path)
        except AssertionError as e:
            print(f"{path.name}: {e}")
            failed += 1
    print(f"{total} requests and their replies checked against botocore {botocore.__version__}, {failed} files failed")
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
