//! `cargo xtask words`: counts words and names that the style guide replaces, and fails if a count has grown.
//!
//! The limits are in `xtask/words.txt`, one pattern and its count a line. `--bless` lowers a limit to the count of today; it
//! never raises one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use regex::Regex;

use crate::commands::{print, root};

/// Folders with Rust sources, below the root.
const SOURCES: [&str; 5] = ["crates", "devtools", "fuzz/fuzz_targets", "tests", "xtask"];

/// Documents and folders of documents, below the root.
const DOCUMENTS: [&str; 6] = [
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs",
];

/// Lists the files in which the searched words are data.
const EXCLUDED: [&str; 1] = ["xtask/src/words.rs"];

/// Words and phrases that comments and documents avoid: a name for the list of limits and a regular expression.
const WORDS: [(&str, &str); 11] = [
    ("stands", r"(?i)\bstands?\b"),
    ("says", r"(?i)\b(says?|said)\b"),
    ("takes", r"(?i)\b(takes?|taken)\b"),
    ("alone", r"(?i)\balone\b"),
    ("beside", r"(?i)\bbeside\b"),
    ("in the place of", r"(?i)\bin the place of\b"),
    ("goes by", r"(?i)\b(go|goes|going) by\b"),
    ("is known of", r"(?i)\b(is|are) known of\b"),
    ("is asked for", r"(?i)\b(is|are|was|were) asked( for)?\b"),
    ("hears of", r"(?i)\bhears?( of)?\b"),
    ("comes to", r"(?i)\b(comes|come|came) to\b"),
];

/// Names that the style guide replaces, found in lines of code.
const NAMES: [(&str, &str); 7] = [
    ("constructor named of", r"\b(fn|let) of\b"),
    ("constant named MOST or PATIENCE", r"\b(const|static) (MOST|PATIENCE)\b"),
    (
        "type named by a bare participle",
        r"\b(struct|enum|trait|type) (Known|Kept|Seen|Told|Beside)\b",
    ),
    (
        "tuple as a parameter",
        r"^\s*\(\w+(, \w+)+\): \(|\bfn \w+[^=;{]*[(,] *\(\w+(, \w+)+\): ",
    ),
    ("existing object named live", r"(\blet |\bmut |[&(|])live\b"),
    (
        "CRD named definition",
        r"\bresource\.definition\b|\bdefinition: (Option|Some|None)\b",
    ),
    (
        "test named by a question",
        r"\bfn (what|who|whose|which|where|how|whether)_\w+\(\)",
    ),
];

/// The longest name of a test, in characters.
const MAX_TEST_NAME_LENGTH: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Lower the limits to the counts of today.
    #[arg(long)]
    bless: bool,
    /// Print the places of this pattern.
    #[arg(long, value_name = "PATTERN")]
    show: Option<String>,
}

/// Counts the patterns and compares the counts with the limits.
///
/// # Errors
/// If a count is above its limit, or a file cannot be read or written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut findings = Findings::default();
    let scanner = Scanner::new()?;
    for folder in SOURCES {
        for file in files(&root().join(folder), "rs")? {
            scanner.scan_source(&file, &read(&file)?, &mut findings);
        }
    }
    for document in DOCUMENTS {
        for file in files(&root().join(document), "md")? {
            scanner.scan_document(&file, &read(&file)?, &mut findings);
        }
    }
    if let Some(pattern) = &arguments.show {
        let places = findings.places.get(pattern.as_str());
        let places = places.with_context(|| format!("no place of a pattern named {pattern:?}"))?;
        places.iter().for_each(|place| print(place));
        return Ok(());
    }
    let path = root().join("xtask/words.txt");
    let limits = parse_limits(&fs::read_to_string(&path).unwrap_or_default())?;
    if arguments.bless {
        let blessed = lowered(&findings.counts(), &limits);
        let lines: Vec<_> = blessed
            .iter()
            .map(|(name, count)| format!("{count:>6} {name}\n"))
            .collect();
        fs::write(&path, lines.concat()).with_context(|| path.display().to_string())?;
    }
    findings.report();
    let grown: Vec<_> = findings
        .counts()
        .into_iter()
        .filter_map(|(name, count)| {
            let limit = limits.get(&name).copied().unwrap_or(0);
            (count > limit && !(arguments.bless && limits.is_empty())).then(|| {
                format!("{name}: {count}, at most {limit} (cargo xtask words --show {name:?} lists the places)")
            })
        })
        .collect();
    ensure!(
        grown.is_empty(),
        "see style.md in CONTRIBUTING.md:\n{}",
        grown.join("\n")
    );
    Ok(())
}

/// Places of each pattern, and the totals that rates need.
#[derive(Default)]
struct Findings {
    /// Places of each pattern, as `file:line: text`.
    places: BTreeMap<String, Vec<String>>,
    /// Number of doc comments.
    doc_comments: usize,
    /// Number of comment lines.
    comment_lines: usize,
}

impl Findings {
    fn add(&mut self, name: &str, place: &Place<'_>) {
        self.places.entry(name.to_owned()).or_default().push(place.to_string());
    }

    fn counts(&self) -> BTreeMap<String, usize> {
        let all = all_patterns().map(|name| (name.to_owned(), self.places.get(name).map_or(0, Vec::len)));
        all.collect()
    }

    fn report(&self) {
        let questions = self.places.get(QUESTION).map_or(0, Vec::len);
        let percent = 100.0 * questions as f64 / self.doc_comments.max(1) as f64;
        print(&format!(
            "{} doc comments, {percent:.1} % start with a question word; {} comment lines",
            self.doc_comments, self.comment_lines
        ));
        for (name, count) in self.counts() {
            print(&format!("{count:>6} {name}"));
        }
    }
}

const QUESTION: &str = "doc comment that starts with a question word";
const LONG_TEST_NAME: &str = "test name of more than 60 characters";
const SHADOWING: &str = "shadowing chain";

fn all_patterns() -> impl Iterator<Item = &'static str> {
    let listed = WORDS.iter().chain(&NAMES).map(|&(name, _)| name);
    listed.chain([QUESTION, LONG_TEST_NAME, SHADOWING])
}

/// A line of a file.
struct Place<'a> {
    file: &'a Path,
    /// Index of the line, from 0.
    index: usize,
    text: &'a str,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.file.strip_prefix(root()).unwrap_or(self.file);
        write!(formatter, "{}:{}: {}", file.display(), self.index + 1, self.text.trim())
    }
}

/// The compiled patterns.
struct Scanner {
    words: Vec<(&'static str, Regex)>,
    names: Vec<(&'static str, Regex)>,
    question: Regex,
    binding: Regex,
    test_function: Regex,
}

impl Scanner {
    fn new() -> Result<Self> {
        let compile = |(name, pattern): &(&'static str, &str)| Ok((*name, Regex::new(pattern)?));
        Ok(Self {
            words: WORDS.iter().map(compile).collect::<Result<_>>()?,
            names: NAMES.iter().map(compile).collect::<Result<_>>()?,
            question: Regex::new(r"^(What|Whether|How|Who|Whose|Whom|Where|Which|Those|That|As)\b")?,
            binding: Regex::new(r"^(\s*)let (?:mut )?(\w+)(?:: [^=]+)? = (.*)$")?,
            test_function: Regex::new(r"^\s*(?:async )?fn (\w+)\(\)")?,
        })
    }

    fn scan_source(&self, file: &Path, text: &str, findings: &mut Findings) {
        let mut previous = "";
        let mut is_test = false;
        let mut bindings = Bindings::default();
        for (index, line) in text.lines().enumerate() {
            let place = Place {
                file,
                index,
                text: line,
            };
            let mark = comment_mark(line);
            if let Some(mark) = mark {
                findings.comment_lines += 1;
                let prose = line.trim_start().trim_start_matches(['/', '!']).trim();
                if matches!(mark, "///" | "//!") && previous != mark {
                    findings.doc_comments += 1;
                    if self.question.is_match(prose) {
                        findings.add(QUESTION, &place);
                    }
                }
                self.scan_prose(&place, prose, findings);
            } else {
                self.scan_code(&place, is_test, &mut bindings, findings);
                is_test = line.trim_start().starts_with("#[") && (is_test || line.contains("test"));
            }
            previous = mark.unwrap_or_default();
        }
    }

    fn scan_code(&self, place: &Place<'_>, is_test: bool, bindings: &mut Bindings, findings: &mut Findings) {
        for (name, pattern) in &self.names {
            if pattern.is_match(place.text) {
                findings.add(name, place);
            }
        }
        if let Some(found) = self.test_function.captures(place.text).filter(|_| is_test)
            && found[1].len() > MAX_TEST_NAME_LENGTH
        {
            findings.add(LONG_TEST_NAME, place);
        }
        let binding = self.binding.captures(place.text);
        let binding = binding.as_ref().map(|found| Binding {
            indentation: found[1].len(),
            name: found[2].to_owned(),
            value: found[3].to_owned(),
        });
        if bindings.chains(place.text, binding) {
            findings.add(SHADOWING, place);
        }
    }

    fn scan_document(&self, file: &Path, text: &str, findings: &mut Findings) {
        for (index, line) in text.lines().enumerate() {
            let place = Place {
                file,
                index,
                text: line,
            };
            self.scan_prose(&place, line, findings);
        }
    }

    fn scan_prose(&self, place: &Place<'_>, prose: &str, findings: &mut Findings) {
        for (name, pattern) in &self.words {
            for _ in pattern.find_iter(prose) {
                findings.add(name, place);
            }
        }
    }
}

/// A `let` statement.
struct Binding {
    indentation: usize,
    name: String,
    value: String,
}

/// The statement before, to find `let x = …; let x = … x …`.
#[derive(Default)]
struct Bindings {
    last: Option<Binding>,
}

impl Bindings {
    /// Reads the next line of code. True if it binds the name of the statement before again, by way of its value.
    fn chains(&mut self, line: &str, binding: Option<Binding>) -> bool {
        let indentation = line.len() - line.trim_start().len();
        let Some(binding) = binding else {
            // A deeper line or a closing bracket continues the statement.
            let continues =
                |last: &Binding| indentation > last.indentation || line.trim_start().starts_with([')', '}', ']', '.']);
            if !line.trim().is_empty() && !self.last.as_ref().is_some_and(continues) {
                self.last = None;
            }
            return false;
        };
        let chains = self.last.as_ref().is_some_and(|last| {
            let mut words = binding.value.split(|c: char| !c.is_alphanumeric() && c != '_');
            last.indentation == binding.indentation && last.name == binding.name && words.any(|word| word == last.name)
        });
        self.last = Some(binding);
        chains
    }
}

/// Returns the mark of a comment that fills the line: `///`, `//!` or `//`.
fn comment_mark(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// Returns the files with this extension: `path` itself, or all below it.
fn files(path: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let entry = entry?.path();
        if entry.is_dir() && !entry.ends_with("target") && !entry.ends_with("node_modules") {
            found.extend(files(&entry, extension)?);
        } else if entry.extension().is_some_and(|found| found == extension)
            && !EXCLUDED.iter().any(|name| entry.ends_with(name))
        {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// Parses the list of limits.
fn parse_limits(text: &str) -> Result<BTreeMap<String, usize>> {
    text.lines()
        .map(|line| {
            let Some((count, name)) = line.trim_start().split_once(' ') else {
                bail!("xtask/words.txt: a line is a count and a name, not {line:?}");
            };
            Ok((name.to_owned(), count.parse().with_context(|| line.to_owned())?))
        })
        .collect()
}

/// Returns the new limits: the counts, but none above its old limit. Without old limits the counts are the limits.
fn lowered(counts: &BTreeMap<String, usize>, limits: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let limit = |name: &String, count: usize| limits.get(name).map_or(count, |&old| old.min(count));
    counts
        .iter()
        .map(|(name, &count)| (name.clone(), limit(name, count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(source: &str) -> BTreeMap<String, usize> {
        let mut findings = Findings::default();
        let scanner = Scanner::new().expect("the patterns compile");
        scanner.scan_source(Path::new("a.rs"), source, &mut findings);
        findings.counts().into_iter().filter(|&(_, count)| count > 0).collect()
    }

    #[test]
    fn question_word_counts_once_a_doc_comment() {
        let found = scanned("/// What it is.\n/// Where it is.\nfn f() {}\n/// Returns it.\nfn g() {}\n");
        assert_eq!(found, BTreeMap::from([(QUESTION.to_owned(), 1)]));
    }

    #[test]
    fn words_count_in_comments_and_not_in_code() {
        let found = scanned("// It stands alone.\nlet stands = \"alone\";\n");
        assert_eq!(
            found,
            BTreeMap::from([("alone".to_owned(), 1), ("stands".to_owned(), 1)])
        );
    }

    #[test]
    fn shadowing_chain_needs_the_name_in_the_value() {
        let chain = "    let x = f();\n    let x = x.g();\n";
        assert_eq!(scanned(chain), BTreeMap::from([(SHADOWING.to_owned(), 1)]));
        assert!(scanned("    let x = f();\n    let x = g();\n").is_empty());
        assert!(scanned("    let x = f();\n    h();\n    let x = x.g();\n").is_empty());
    }

    #[test]
    fn tuple_parameter_is_found() {
        assert_eq!(scanned("fn f(a: u8, (b, c): (u8, u8)) {}\n").len(), 1);
        assert!(scanned("fn f(a: u8, b: (u8, u8)) {}\n").is_empty());
    }

    #[test]
    fn long_test_name_is_found() {
        let name = "a".repeat(MAX_TEST_NAME_LENGTH + 1);
        assert_eq!(scanned(&format!("#[test]\nfn {name}() {{}}\n")).len(), 1);
        assert!(scanned(&format!("fn {name}() {{}}\n")).is_empty());
    }

    #[test]
    fn blessing_never_raises_a_limit() {
        let count = |count| BTreeMap::from([("says".to_owned(), count)]);
        assert_eq!(lowered(&count(5), &count(3)), count(3));
        assert_eq!(lowered(&count(2), &count(3)), count(2));
        assert_eq!(lowered(&count(5), &BTreeMap::new()), count(5));
    }
}
