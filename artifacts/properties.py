"""The properties of Table Schemas of versions 1 and 2, and of their fields and constraints: what becomes of each.

The guide's table is made of them. Checked by tests/artifacts/test_table_schema.py
"""

import re

NO_RULE = "allowed: no cell is read by it"
PROPERTIES: dict[str, dict[str, str]] = {
    "schema": {
        "fields": "read",
        "missingValues": "read: cells of these texts or numbers are missing, besides the usual markers",
        "fieldsMatch": "`exact` and `equal` are read; others are refused: name the columns in `data.features`",
        **dict.fromkeys(("$schema", "primaryKey", "uniqueKeys", "foreignKeys"), NO_RULE),
    },
    "field": {
        "name": "read",
        "type": "read; types without a range, categories or text are refused: "
        "time, yearmonth, duration, list, array, object, geopoint, geojson",
        "format": "read if dates and moments are written such as `%d.%m.%Y`; `any` and other formats are refused",
        "constraints": "read",
        "categories": "read as `enum`, with or without labels",
        "missingValues": "read, in place of those of the schema",
        "trueValues": "read, in place of the usual words: true, t, yes, y, ja, oui, 1",
        "falseValues": "read, in place of the usual words: false, f, no, n, nein, non, 0",
        "decimalChar": "refused, but for a point: `data.format` declares it for all CSV files",
        "groupChar": "refused: `data.format` declares it for all CSV files, as `thousands`",
        "bareNumber": "refused if false: write numbers without units",
        "buckets": "read: Concord's own, for text without categories",
        **dict.fromkeys(("title", "description", "example", "rdfType", "categoriesOrdered"), NO_RULE),
        **dict.fromkeys(("delimiter", "itemType"), "refused, with the type list"),
    },
    "constraints": {
        "minimum": "read",
        "maximum": "read",
        "exclusiveMinimum": "read; of a number that is not whole as `minimum`",
        "exclusiveMaximum": "read; of a number that is not whole as `maximum`",
        "enum": "read",
        **dict.fromkeys(("required", "unique", "minLength", "maxLength", "pattern", "jsonSchema"), NO_RULE),
    },
}
"""The properties of Table Schemas of versions 1 and 2, and of their fields and constraints: what becomes of each."""
TEXT_FORMATS = ("default", "email", "uri", "binary", "uuid")
"""Formats of text, which is read as it is."""
STRPTIME = re.compile("(?:[^%]|%[YmdHMS])*")
