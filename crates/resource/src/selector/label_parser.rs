//! Reads the text of label selectors: a lexer and a parser with one token of look-ahead.

use holdfast_schema::metadata::formats;
use holdfast_schema::{FieldError, FieldPath};
use smol_str::SmolStr;

use super::SelectorError;
use super::labels::{LabelOperator, LabelRequirement};

/// Reads the requirements in their order.
///
/// upstream: k8s.io/apimachinery/pkg/labels#Parser.parse
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let (tokens, at) = (tokens(text), 0);
    let mut parser = Parser { tokens, at };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Sign("!") => {}
            Token::End => return Ok(requirements),
            other => return Err(found(&other, ", expected: !, identifier, or 'end of string'")),
        }
        let requirement = parser
            .requirement()
            .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?;
        requirements.push(requirement);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Sign(",") => match parser.peek() {
                Token::Word(_) | Token::Sign("!") => {}
                other => return Err(found(&other, ", expected: identifier after ','")),
            },
            other => return Err(found(&other, ", expected: ',' or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'static str),
    End,
}

/// The signs, longer ones before their prefixes.
const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_sign = |letter: char| "=!(),><".contains(letter);
    let is_space = |letter: char| matches!(letter, ' ' | '\t' | '\r' | '\n');
    let (mut tokens, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start_matches(is_space);
        if rest.is_empty() {
            return tokens;
        }
        let (token, length) = match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => (Token::Sign(sign), sign.len()),
            None => {
                let length = rest
                    .find(|letter| is_sign(letter) || is_space(letter))
                    .unwrap_or(rest.len());
                (Token::Word(&rest[..length]), length)
            }
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

fn found(token: &Token<'_>, expected: &str) -> SelectorError {
    let literal = match token {
        Token::Word(text) => text,
        Token::Sign(sign) => sign,
        Token::End => "",
    };
    SelectorError(format!("found '{literal}'{expected}"))
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let negated = self.peek() == Token::Sign("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => SmolStr::new(key),
            other => return Err(found(&other, ", expected: identifier")),
        };
        check_key(&key)?;
        if negated {
            return LabelRequirement::checked(key, LabelOperator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return LabelRequirement::checked(key, LabelOperator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let mut values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        values.sort();
        values.dedup();
        LabelRequirement::checked(key, operator, values)
    }

    fn operator(&mut self) -> Result<LabelOperator, SelectorError> {
        Ok(match self.next() {
            Token::Word("in") => LabelOperator::In,
            Token::Word("notin") => LabelOperator::NotIn,
            Token::Sign("=") => LabelOperator::Equals,
            Token::Sign("==") => LabelOperator::DoubleEquals,
            Token::Sign("!=") => LabelOperator::NotEquals,
            Token::Sign(">") => LabelOperator::GreaterThan,
            Token::Sign("<") => LabelOperator::LessThan,
            other => return Err(found(&other, ", expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// Reads the values in parentheses. An empty one may be before, between and after commas.
    fn values(&mut self) -> Result<Vec<SmolStr>, SelectorError> {
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(found(&other, " expected: '('")),
        }
        match self.peek() {
            Token::Word(_) | Token::Sign(",") => {}
            Token::Sign(")") => {
                self.next();
                return Ok(vec![SmolStr::default()]);
            }
            other => return Err(found(&other, ", expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(SmolStr::new(value));
                    match self.peek() {
                        Token::Sign(",") => {}
                        Token::Sign(")") => break,
                        other => return Err(found(&other, ", expected: ',' or ')'")),
                    }
                }
                Token::Sign(",") => {
                    if values.is_empty() {
                        values.push(SmolStr::default());
                    }
                    match self.peek() {
                        Token::Sign(")") => {
                            values.push(SmolStr::default());
                            break;
                        }
                        Token::Sign(",") => {
                            self.next();
                            values.push(SmolStr::default());
                        }
                        _ => {}
                    }
                }
                other => return Err(found(&other, ", expected: ',', or identifier")),
            }
        }
        self.next();
        Ok(values)
    }

    fn exact_value(&mut self) -> Result<SmolStr, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(SmolStr::default());
        }
        match self.next() {
            Token::Word(value) => Ok(SmolStr::new(value)),
            other => Err(found(&other, ", expected: identifier")),
        }
    }
}

/// upstream: k8s.io/apimachinery/pkg/labels#validateLabelKey
fn check_key(key: &SmolStr) -> Result<(), SelectorError> {
    let wrong = formats::qualified_name(key);
    if wrong.is_empty() {
        return Ok(());
    }
    let error = FieldError::invalid(&FieldPath::default(), key.clone(), wrong.join("; "));
    Err(SelectorError(error.to_string()))
}
