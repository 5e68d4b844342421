//! Validation of JSONPath templates, with the messages of the reference's parser (client-go's `jsonpath`).

/// Maximum nesting depth of filters and unions.
const MAX_DEPTH: usize = 16;

/// Returns the reason why `path` cannot be parsed.
pub(super) fn error(path: &str) -> Option<String> {
    action(path, 0).err()
}

/// Parses the text between braces.
fn action(text: &str, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("the path is nested too deep".to_owned());
    }
    let mut reader = Reader {
        letters: text.chars().collect(),
        at: 0,
        depth,
    };
    reader.steps()
}

struct Reader {
    letters: Vec<char>,
    at: usize,
    depth: usize,
}

fn ends_name(letter: char) -> bool {
    letter.is_whitespace() || ".,[]$@{}".contains(letter)
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn starts_with(&self, sign: &str) -> bool {
        let rest = self.letters.get(self.at..).unwrap_or_default();
        sign.chars()
            .enumerate()
            .all(|(at, letter)| rest.get(at) == Some(&letter))
    }

    fn since(&self, start: usize) -> String {
        self.letters.get(start..self.at).unwrap_or_default().iter().collect()
    }

    fn steps(&mut self) -> Result<(), String> {
        let mut descends = false;
        while let Some(letter) = self.peek() {
            if self.starts_with("[?(") {
                self.filter()?;
            } else if self.starts_with("..") {
                if descends {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.at += 2;
                descends = true;
                if self
                    .peek()
                    .is_some_and(|letter| letter == '_' || letter.is_alphanumeric())
                {
                    self.name();
                    descends = false;
                }
                continue;
            } else {
                self.at += 1;
                match letter {
                    '\n' | '\r' => return Err("unclosed action".to_owned()),
                    ' ' | '@' | '$' => continue,
                    '[' => self.array()?,
                    '"' | '\'' => self.quoted(letter)?,
                    '.' => self.name(),
                    '+' | '-' | '0'..='9' => self.number()?,
                    letter if letter == '_' || letter.is_alphanumeric() => self.name(),
                    // The action ends. The text up to the next action is literal.
                    '}' => {
                        while self.peek().is_some_and(|letter| letter != '{') {
                            self.at += 1;
                        }
                        self.at += 1;
                    }
                    odd => {
                        return Err(format!(
                            "unrecognized character in action: U+{:04X} '{odd}'",
                            odd as u32
                        ));
                    }
                }
            }
            descends = false;
        }
        Ok(())
    }

    fn name(&mut self) {
        while let Some(letter) = self.peek() {
            if letter == '\\' {
                self.at += 1;
            } else if ends_name(letter) {
                break;
            }
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<(), String> {
        let start = self.at - 1;
        while self
            .peek()
            .is_some_and(|letter| letter == '.' || letter.is_ascii_digit())
        {
            self.at += 1;
        }
        let text = self.since(start);
        match text.parse::<f64>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("cannot parse number {text}")),
        }
    }

    fn quoted(&mut self, end: char) -> Result<(), String> {
        let mut escaped = false;
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '\n' => break,
                letter if letter == end && !escaped => return Ok(()),
                letter => escaped = letter == '\\',
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    /// upstream: k8s.io/client-go/util/jsonpath#Parser.parseArray
    fn array(&mut self) -> Result<(), String> {
        let start = self.at;
        loop {
            match self.peek() {
                None | Some('\n') => return Err("unterminated array".to_owned()),
                Some(']') => break,
                Some(_) => self.at += 1,
            }
        }
        let text = self.since(start);
        self.at += 1;
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > 1 {
            return parts
                .iter()
                .try_for_each(|part| action(&format!("[{}]", part.trim_matches(' ')), self.depth + 1));
        }
        let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            return action(&format!(".{key}"), self.depth + 1);
        }
        let is_index = |part: &str| {
            part.strip_prefix('-')
                .unwrap_or(part)
                .bytes()
                .all(|byte| byte.is_ascii_digit())
        };
        if text == "*" || text.split(':').count() <= 3 && text.split(':').all(is_index) {
            Ok(())
        } else {
            Err(format!("invalid array index {text}"))
        }
    }

    fn filter(&mut self) -> Result<(), String> {
        self.at += 3;
        let start = self.at;
        let mut quote = None;
        let text = loop {
            let letter = self.peek().filter(|letter| *letter != '\n');
            let Some(letter) = letter else {
                return Err("unterminated filter".to_owned());
            };
            match letter {
                '"' | '\'' if quote.is_none() => quote = Some(letter),
                letter if Some(letter) == quote => quote = None,
                ')' if quote.is_none() => break self.since(start),
                _ => {}
            }
            self.at += 1;
        };
        self.at += 1;
        if self.peek() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        self.at += 1;
        let sign = |letter: char| "!<>=".contains(letter);
        match text.split_once(sign).filter(|(left, _)| !left.is_empty()) {
            Some((left, right)) => {
                action(left, self.depth + 1)?;
                action(right.trim_start_matches(sign), self.depth + 1)
            }
            None => action(&text, self.depth + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::error;

    #[test]
    fn paths_are_read_as_templates_are() {
        for path in [
            "spec.validations[0].expression",
            ".a..b[*]",
            ".a[?(@.b == 'x)')].c",
            "$.a['b.c'][1:2,-1]",
            "-1.5",
        ] {
            assert_eq!(error(path), None, "{path}");
        }
        for (path, message) in [
            ("-a", "cannot parse number -"),
            (".a[", "unterminated array"),
            (".a[x]", "invalid array index x"),
            (".a[?(@.b", "unterminated filter"),
            (".a....b", "invalid multiple recursive descent"),
            ("'a", "unterminated quoted string"),
            ("a,b", "unrecognized character in action: U+002C ','"),
        ] {
            assert_eq!(error(path).as_deref(), Some(message), "{path}");
        }
        assert!(error(&format!("{}@", ".a[?(".repeat(99))).is_some());
    }
}
