/*
 * The contract of base/text: texts, and the formats that we read and write.
 *
 * - str: views of bytes, strict parsers
 * - sbuf: text that grows up to a cap
 * - near: the nearest valid word
 * - json, json_put, json_marks: JSON parsed, written, and the documents of the database
 * - csv, xml, yaml: readers with limits
 * - conf: configuration as one table
 * - zone: time zones by their IANA name
 *
 * Other folders include this header alone.
 */
#ifndef BASE_TEXT_TEXT_H
#define BASE_TEXT_TEXT_H

#include "base/text/str.h"
#include "base/text/sbuf.h"
#include "base/text/near.h"
#include "base/text/json.h"
#include "base/text/json_put.h"
#include "base/text/json_marks.h"
#include "base/text/csv.h"
#include "base/text/xml.h"
#include "base/text/yaml.h"
#include "base/text/conf.h"
#include "base/text/zone.h"

#endif
