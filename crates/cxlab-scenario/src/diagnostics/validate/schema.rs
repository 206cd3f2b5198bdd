//! Reading a JSON Schema: references, types, constants.

use serde_json::Value;

/// Longest chain of references that is followed; a longer one is a loop.
const LONGEST_CHAIN: usize = 32;

/// The whole schema, in which references are looked up.
#[derive(Clone, Copy)]
pub(super) struct Schemas<'s> {
    pub(super) root: &'s Value,
}

impl<'s> Schemas<'s> {
    /// Target of the schema's own `$ref`.
    pub(super) fn target(self, schema: &Value) -> Option<&'s Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    /// The schema and the chain of schemas that it refers to.
    pub(super) fn chain(self, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
        std::iter::successors(Some(schema), move |schema| self.target(schema)).take(LONGEST_CHAIN)
    }

    /// The subschema of a property, through references and `allOf`.
    pub(super) fn property(self, schema: &'s Value, name: &str) -> Option<&'s Value> {
        let mut parts = self.parts(schema).into_iter();
        parts.find_map(|part| part.get("properties")?.get(name))
    }

    /// The names of all properties, through references and `allOf`.
    pub(super) fn property_names(self, schema: &'s Value) -> Vec<&'s str> {
        let parts = self.parts(schema).into_iter();
        let maps = parts.filter_map(|part| part.get("properties")?.as_object());
        maps.flat_map(|map| map.keys().map(String::as_str))
            .collect()
    }

    /// The names of all required properties, through references and `allOf`.
    pub(super) fn required(self, schema: &'s Value) -> Vec<&'s str> {
        let parts = self.parts(schema).into_iter();
        let names = parts.flat_map(|part| list(part, "required"));
        names.filter_map(Value::as_str).collect()
    }

    /// Description of a property in the schema.
    pub(super) fn description(self, schema: &'s Value) -> Option<&'s str> {
        let mut chain = self.chain(schema);
        chain.find_map(|part| part.get("description")?.as_str())
    }

    /// Whether the value's type is one that the schema takes, through references.
    pub(super) fn admits(self, schema: &'s Value, value: &Value) -> bool {
        self.chain(schema).all(|part| admits(part, value))
    }

    pub(super) fn constants(self, schema: &'s Value) -> Option<Vec<&'s Value>> {
        self.chain(schema).find_map(constants)
    }

    /// The schema, the schemas that it refers to, and the members of their `allOf`.
    fn parts(self, schema: &'s Value) -> Vec<&'s Value> {
        let chain = self.chain(schema);
        let members = chain.flat_map(move |part| {
            let inner = list(part, "allOf").iter();
            std::iter::once(part).chain(inner.flat_map(move |member| self.chain(member)))
        });
        members.collect()
    }
}

/// The array at that keyword, empty when there is none.
pub(super) fn list<'s>(schema: &'s Value, keyword: &str) -> &'s [Value] {
    let array = schema.get(keyword).and_then(Value::as_array);
    array.map_or(&[], Vec::as_slice)
}

/// The values of the schema's own `const` or `enum`.
pub(super) fn constants(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(constant) = schema.get("const") {
        return Some(vec![constant]);
    }
    let values = schema.get("enum")?.as_array()?.iter();
    Some(values.filter(|value| !value.is_null()).collect())
}

/// The names in the schema's own `type`, without `null`, which TOML cannot write.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    let names = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter(|name| *name != "null").collect()
}

/// Whether the schema takes nothing but `null`.
pub(super) fn only_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
        || schema.get("const").is_some_and(Value::is_null)
}

/// Whether the value's type is in the schema's own `type`; a schema without takes every type.
pub(super) fn admits(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    types.is_empty() || types.iter().any(|name| is_a(value, name))
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}
