//! JSONPath in the form that kubectl and printer columns use
//! (<https://kubernetes.io/docs/reference/kubectl/jsonpath/>): fields, indices, slices, wildcards, unions, recursive
//! descent and filters. A missing value yields nothing.

use std::cmp::Ordering;

use holdfast_value::{SmolStr, Value};

/// Maximum number of intermediate values of a path, so that wildcards within wildcards end.
const MAX_VALUES: usize = 10_000;

/// Maximum depth of recursive descent.
const MAX_DEPTH: usize = 64;

/// A path into an object.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(SmolStr),
    Wildcard,
    Recursive,
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    Index(i64),
    Union(Vec<Step>),
    Path(JsonPath),
    Filter(Box<Filter>),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    AtMost,
    AtLeast,
    Less,
    More,
}

/// Error that an object does not have the structure that the path expects, such as a list that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreadable;

type Found<T> = Result<T, Unreadable>;

impl Comparison {
    const SIGNS: [(&'static str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::More),
    ];

    /// Compares two scalars of one type; booleans only for equality.
    fn holds(self, left: &Value, right: &Value) -> Found<bool> {
        use Value::{Bool, Float, Int, String, UInt};
        match (left, right) {
            (Int(_) | UInt(_), Int(_) | UInt(_)) | (Float(_), Float(_)) | (String(_), String(_)) => {}
            (Bool(_), Bool(_)) if matches!(self, Self::Equal | Self::Unequal) => {}
            _ => return Err(Unreadable),
        }
        let order = left.compare(right);
        Ok(match self {
            Self::Equal => order == Ordering::Equal,
            Self::Unequal => order != Ordering::Equal,
            Self::AtMost => order != Ordering::Greater,
            Self::AtLeast => order != Ordering::Less,
            Self::Less => order == Ordering::Less,
            Self::More => order == Ordering::Greater,
        })
    }
}

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`, with or without braces around it.
    ///
    /// # Errors
    /// If the path is invalid, with a short description.
    pub fn parse(text: &str) -> Result<Self, String> {
        let inner = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(text);
        let mut reader = Reader { rest: inner };
        let steps = reader.steps()?;
        if reader.rest.is_empty() {
            Ok(Self { steps })
        } else {
            Err(format!("unexpected {:?}", reader.rest))
        }
    }

    /// Returns the values that the path leads to, in the order of the object. There are none if the object does not
    /// have the structure that the path expects, for example if an index is beyond the end of a list.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        self.follow(object).unwrap_or_default()
    }

    /// Returns the names of the fields that the path begins with: it reads nothing outside the field that they lead to.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the names of the fields that the path consists of; `None` if it has another step.
    pub fn only_fields(&self) -> Option<impl Iterator<Item = &str>> {
        let is_field = |step: &Step| matches!(step, Step::Field(_));
        self.steps.iter().all(is_field).then(|| self.fields())
    }

    fn follow<'v>(&self, object: &'v Value) -> Found<Vec<&'v Value>> {
        let mut found = vec![object];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.follow(value, &mut next)?;
                if next.len() > MAX_VALUES {
                    next.truncate(MAX_VALUES);
                    break;
                }
            }
            found = next;
        }
        Ok(found)
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value, out: &mut Vec<&'v Value>) -> Found<()> {
        match self {
            Self::Field(name) => out.extend(value.get(name)),
            Self::Wildcard => out.extend(children(value)),
            Self::Recursive => descend(value, 0, out),
            Self::Index(at) => {
                let Some(list) = list(value)? else { return Ok(()) };
                out.push(
                    position(*at, list.len())
                        .and_then(|at| list.get(at))
                        .ok_or(Unreadable)?,
                );
            }
            Self::Slice { start, end, step } => {
                let Some(list) = list(value)? else { return Ok(()) };
                let bound = |at: Option<i64>, unsaid: usize| match at {
                    Some(at) => position(at, list.len()).ok_or(Unreadable),
                    None => Ok(unsaid),
                };
                let (start, end) = (bound(*start, 0)?, bound(*end, list.len())?);
                let step = usize::try_from(*step).ok().filter(|step| *step > 0).ok_or(Unreadable)?;
                if start != end {
                    out.extend(list.get(start..end).ok_or(Unreadable)?.iter().step_by(step));
                }
            }
            Self::Union(steps) => {
                for step in steps {
                    step.follow(value, out)?;
                }
            }
            Self::Path(path) => out.extend(path.follow(value)?),
            Self::Filter(filter) => {
                for item in list(value)?.unwrap_or_default() {
                    if filter.holds(item)? {
                        out.push(item);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the items of a list; `None` for null, which has none.
fn list(value: &Value) -> Found<Option<&[Value]>> {
    match value {
        Value::Null => Ok(None),
        Value::List(list) => Ok(Some(&list[..])),
        _ => Err(Unreadable),
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> Found<bool> {
        let Some((comparison, right)) = &self.comparison else {
            return Ok(match &self.left {
                Operand::Literal(_) => true,
                Operand::Path(path) => path.follow(item).is_ok_and(|found| !found.is_empty()),
            });
        };
        match (self.left.resolve(item)?, right.resolve(item)?) {
            (Some(left), Some(right)) => comparison.holds(left, right),
            _ => Ok(false),
        }
    }
}

impl Operand {
    fn resolve<'v>(&'v self, item: &'v Value) -> Found<Option<&'v Value>> {
        match self {
            Self::Literal(value) => Ok(Some(value)),
            Self::Path(path) => match path.follow(item)?[..] {
                [] => Ok(None),
                [only] => Ok(Some(only)),
                _ => Err(Unreadable),
            },
        }
    }
}

fn position(at: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at.checked_add(length)? } else { at };
    usize::try_from(at).ok().filter(|_| at <= length)
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_list().map_or(&[][..], |list| list).iter();
    let fields = value.as_map().into_iter().flatten().map(|(_, value)| value);
    items.chain(fields)
}

fn descend<'v>(value: &'v Value, depth: usize, out: &mut Vec<&'v Value>) {
    if depth > MAX_DEPTH || out.len() > MAX_VALUES {
        return;
    }
    out.push(value);
    for child in children(value) {
        descend(child, depth + 1, out);
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            if self.take("..") {
                steps.push(Step::Recursive);
                if !self.rest.starts_with(['[', '.']) && !self.rest.is_empty() {
                    steps.push(self.field()?);
                }
            } else if self.take(".") {
                // A single dot is the value itself.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.take("[") {
                steps.push(self.brackets()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads a name up to the next sign; a backslash escapes the next letter.
    fn field(&mut self) -> Result<Step, String> {
        if self.take("*") {
            return Ok(Step::Wildcard);
        }
        let (mut name, mut letters) = (String::new(), self.rest.char_indices());
        let mut end = self.rest.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
                '.' | '[' | ' ' | ')' | '=' | '!' | '<' | '>' | '}' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        self.rest = &self.rest[end..];
        if name.is_empty() {
            return Err("a name is missing".to_owned());
        }
        Ok(Step::Field(name.into()))
    }

    fn brackets(&mut self) -> Result<Step, String> {
        if self.take("?(") {
            let filter = self.filter()?;
            return match self.take(")]") {
                true => Ok(Step::Filter(Box::new(filter))),
                false => Err("unterminated filter".to_owned()),
            };
        }
        let mut parts = Vec::new();
        loop {
            parts.push(self.bracket_part()?);
            if self.take("]") {
                break;
            }
            if !self.take(",") {
                return Err("unterminated array".to_owned());
            }
        }
        Ok(match <[Step; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => Step::Union(parts),
        })
    }

    /// upstream: k8s.io/client-go/util/jsonpath#Parser.parseArray
    fn bracket_part(&mut self) -> Result<Step, String> {
        self.blanks();
        if self.take("*") {
            return Ok(Step::Wildcard);
        }
        if let Some(text) = self.quoted_path()? {
            self.blanks();
            return Ok(text);
        }
        let end = self.rest.find([']', ',']).ok_or("unterminated array")?;
        let (part, rest) = self.rest.split_at(end);
        self.rest = rest;
        let numbers: Vec<&str> = part.split(':').map(str::trim).collect();
        let number = |text: &&str| match *text {
            "" => Ok(None),
            text => text
                .parse::<i64>()
                .map(Some)
                .map_err(|_| format!("invalid array index {text}")),
        };
        match numbers[..] {
            [at] => match number(&at)? {
                Some(at) => Ok(Step::Index(at)),
                None => Err("an index is missing".to_owned()),
            },
            [start, end] => Ok(Step::Slice {
                start: number(&start)?,
                end: number(&end)?,
                step: 1,
            }),
            [start, end, step] => Ok(Step::Slice {
                start: number(&start)?,
                end: number(&end)?,
                step: number(&step)?.unwrap_or(1),
            }),
            _ => Err(format!("invalid array index {part}")),
        }
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    /// Reads a quoted name like one after a dot: dots and brackets within it descend further, too.
    fn quoted_path(&mut self) -> Result<Option<Step>, String> {
        let Some(quote) = self.rest.chars().next().filter(|letter| matches!(letter, '\'' | '"')) else {
            return Ok(None);
        };
        let (name, rest) = self.rest[1..].split_once(quote).ok_or("unterminated quoted string")?;
        self.rest = rest;
        let text = format!(".{name}");
        let mut reader = Reader { rest: &text };
        let steps = reader.steps()?;
        match reader.rest {
            "" => Ok(Some(Step::Path(JsonPath { steps }))),
            rest => Err(format!("unexpected {rest:?}")),
        }
    }

    fn quoted(&mut self) -> Result<Option<String>, String> {
        let Some(quote) = self.rest.chars().next().filter(|letter| matches!(letter, '\'' | '"')) else {
            return Ok(None);
        };
        let (mut text, mut letters) = (String::new(), self.rest.char_indices().skip(1));
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => text.extend(letters.next().map(|(_, escaped)| escaped)),
                letter if letter == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Some(text));
                }
                other => text.push(other),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn filter(&mut self) -> Result<Filter, String> {
        let left = self.operand()?;
        self.blanks();
        let sign = Comparison::SIGNS.iter().find(|(sign, _)| self.rest.starts_with(sign));
        let comparison = match sign {
            Some((sign, comparison)) => {
                self.take(sign);
                Some((*comparison, self.operand()?))
            }
            None => None,
        };
        self.blanks();
        Ok(Filter { left, comparison })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.blanks();
        if self.take("@") {
            let steps = self.steps()?;
            return Ok(Operand::Path(JsonPath { steps }));
        }
        if let Some(text) = self.quoted()? {
            return Ok(Operand::Literal(text.into()));
        }
        let end = self
            .rest
            .find([')', ' ', '=', '!', '<', '>'])
            .ok_or("unterminated filter")?;
        let (word, rest) = self.rest.split_at(end);
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            word => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(whole), _) => Value::Int(whole),
                (_, Ok(number)) if number.is_finite() => Value::Float(number),
                _ => return Err(format!("unrecognized {word:?} in filter")),
            },
        };
        self.rest = rest;
        Ok(Operand::Literal(value))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn paths_find_what_they_name() {
        let text = r#"{"spec":{"tags":["a","b","c"],"m":{"j":1,"k":2},"example.com/x":"hi"},
            "status":{"conditions":[{"type":"A","status":"x","n":1},{"type":"Ready","status":"True","n":3}]}}"#;
        let object = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        for (path, found) in [
            (".spec.tags", r#"[["a","b","c"]]"#),
            (".spec.tags[0]", r#"["a"]"#),
            (".spec.tags[-1]", r#"["c"]"#),
            (".spec.tags[0:2]", r#"["a","b"]"#),
            (".spec.tags[::2]", r#"["a","c"]"#),
            (".spec.tags[*]", r#"["a","b","c"]"#),
            (".spec.tags[0,2]", r#"["a","c"]"#),
            (".spec.tags[7]", "[]"),
            (".spec.m.*", "[1,2]"),
            (r".spec.example\.com/x", r#"["hi"]"#),
            (r".spec['example\.com/x']", r#"["hi"]"#),
            (".spec['m.j']", "[1]"),
            (".spec['example.com/x']", "[]"),
            (".spec.tags[1:4]", "[]"),
            (".spec.tags[3:3]", "[]"),
            (".spec.m[?(@.j)]", "[]"),
            (".status.conditions[?(@.n>'a')].type", "[]"),
            (".status.conditions[?(@.n>1.5)].type", "[]"),
            (r#".status.conditions[?(@.type=="Ready")].status"#, r#"["True"]"#),
            ("{.status.conditions[?(@.n > 1)].type}", r#"["Ready"]"#),
            (".status.conditions[?(@.type!='A')].type", r#"["Ready"]"#),
            (".status.conditions[?(@.gone)].type", "[]"),
            ("..type", r#"["A","Ready"]"#),
            (".spec.tags.x", "[]"),
        ] {
            let values: Vec<Value> = JsonPath::parse(path)
                .unwrap()
                .find(&object)
                .into_iter()
                .cloned()
                .collect();
            assert_eq!(json::to_string(&Value::from(values)), found, "{path}");
        }
        for path in [".a[", ".a[x]", ".a['x]", ".a[?(@.b==)]", "a b", ".a[?(@.b]", ".a..b c"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
