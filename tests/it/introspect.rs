//! What the running server says of its own schema, and documents made from it.

use serde_json::{Value, json};

use crate::client::Client;

const QUERY: &str = "{ __schema { types { name kind
    fields { name args { name type { ...T } } type { ...T } }
    inputFields { name type { ...T } } } } }
  fragment T on __Type { name kind ofType { name kind ofType { name kind ofType { name kind } } } }";

pub struct Schema(Vec<Value>);

impl Schema {
    pub async fn of(client: &Client) -> Self {
        let data = client.data(QUERY, Value::Null).await;
        Self(data["__schema"]["types"].as_array().unwrap().clone())
    }

    fn definition(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|definition| definition["name"] == name);
        found.unwrap_or_else(|| panic!("no type {name}"))
    }

    /// All types that have fields.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|definition| definition["kind"] == "OBJECT")
    }

    /// The names of the fields of a type.
    pub fn fields(&self, of: &str) -> Vec<&str> {
        list(&self.definition(of)["fields"]).map(|field| text(&field["name"])).collect()
    }

    fn field(&self, of: &str, name: &str) -> &Value {
        let found = list(&self.definition(of)["fields"]).find(|field| field["name"] == name);
        found.unwrap_or_else(|| panic!("{of} has no {name}"))
    }

    /// The paths of all arguments of a root field that are ids, those inside of its inputs too,
    /// for example `deliveries.filter.triggerId`.
    pub fn id_arguments(&self, of: &str, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        for argument in list(&self.field(of, name)["args"]) {
            let path = format!("{name}.{}", text(&argument["name"]));
            let inner = self.definition(innermost(&argument["type"]));
            if inner["name"] == "ID" {
                found.push(path);
                continue;
            }
            let ids = list(&inner["inputFields"]).filter(|f| innermost(&f["type"]) == "ID");
            found.extend(ids.map(|field| format!("{path}.{}", text(&field["name"]))));
        }
        found
    }

    /// A document that asks for one root field, with a variable for each of its arguments that
    /// `variables` has.
    pub fn document(&self, root: &str, name: &str, variables: &Value, selection: &str) -> String {
        let field = self.field(root, name);
        let used: Vec<_> =
            list(&field["args"]).filter(|a| variables.get(text(&a["name"])).is_some()).collect();
        assert_eq!(used.len(), variables.as_object().map_or(0, serde_json::Map::len), "{name}");
        let declared = used.iter().map(|a| format!("${}: {}", text(&a["name"]), spelt(&a["type"])));
        let passed = used.iter().map(|a| format!("{0}: ${0}", text(&a["name"])));
        let round = |all: Vec<String>| match all.is_empty() {
            true => String::new(),
            false => format!("({})", all.join(", ")),
        };
        let (declared, passed) = (round(declared.collect()), round(passed.collect()));
        format!("{} x{declared} {{ {name}{passed} {selection} }}", root.to_lowercase())
    }

    /// A selection of everything that a root field leads to, `depth` objects deep.
    pub fn everything(&self, root: &str, name: &str, depth: usize) -> String {
        self.selection(innermost(&self.field(root, name)["type"]), depth)
    }

    fn selection(&self, of: &str, depth: usize) -> String {
        let mut chosen = Vec::new();
        for field in list(&self.definition(of)["fields"]) {
            let name = text(&field["name"]);
            let inner = innermost(&field["type"]);
            // Nodes say all that edges say, but for the cursor.
            let inside = match (name, self.definition(inner)["kind"] == "OBJECT") {
                ("edges", _) => "{ cursor }".to_owned(),
                (_, false) => String::new(),
                ("nodes" | "pageInfo", true) => self.selection(inner, depth),
                (_, true) if depth == 0 => continue,
                (_, true) if inner.ends_with("Connection") => self.selection(inner, depth - 1),
                (_, true) => self.selection(inner, depth - 1),
            };
            let few = if inner.ends_with("Connection") { "(first: 5)" } else { "" };
            chosen.push(format!("{name}{few} {inside}"));
        }
        match chosen.is_empty() {
            true => String::new(),
            false => format!("{{ {} }}", chosen.join(" ")),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The name of a type without its lists and exclamation marks.
fn innermost(of: &Value) -> &str {
    match of.get("ofType").filter(|inner| !inner.is_null()) {
        Some(inner) => innermost(inner),
        None => text(&of["name"]),
    }
}

/// A type as a document spells it.
fn spelt(of: &Value) -> String {
    match text(&of["kind"]) {
        "NON_NULL" => format!("{}!", spelt(&of["ofType"])),
        "LIST" => format!("[{}]", spelt(&of["ofType"])),
        _ => text(&of["name"]).to_owned(),
    }
}

/// An object with `value` at a path of field names, for example `filter.triggerId`.
pub fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |inner, name| json!({ name: inner }))
}
