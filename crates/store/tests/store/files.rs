//! Tests of the data directory: exclusive use, supported files, detected damage, and a full disk.
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast_store::{CommitError, Config, OpenError, Store, Transaction, Value};
use tempfile::TempDir;
use test_support::needs;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Returns a directory with a closed store of 100 objects.
fn filled() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    runtime().block_on(async {
        for n in 0..100 {
            let value = Value::plain(format!("value {n} {}", "x".repeat(500)));
            store
                .commit(Transaction::new().put(format!("/registry/pods/a/p{n:02}"), value))
                .await
                .unwrap();
        }
        store.close().await.unwrap();
    });
    directory
}

fn open_error(directory: &Path) -> OpenError {
    Store::open(Config::new(directory), ()).map(|_| ()).unwrap_err()
}

/// Changes one pragma of the file.
fn set(directory: &Path, pragma: &str) {
    let connection = rusqlite::Connection::open(directory.join("store.db")).unwrap();
    connection
        .execute_batch(&format!("PRAGMA {pragma}; PRAGMA wal_checkpoint(TRUNCATE)"))
        .unwrap();
}

/// Overwrites bytes at the position of `text` in the file.
fn overwrite(file: &Path, text: &str, with: &[u8]) {
    let bytes = fs::read(file).unwrap();
    let at = bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes())
        .unwrap();
    File::options()
        .write(true)
        .open(file)
        .unwrap()
        .write_all_at(with, at as u64)
        .unwrap();
}

#[test]
fn a_second_opener_learns_who_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    let error = open_error(directory.path());
    assert!(matches!(&error, OpenError::InUse { holder: Some(pid), .. } if *pid == std::process::id()));
    let text = error.to_string();
    assert!(
        text.contains(directory.path().to_str().unwrap()) && text.contains("in use by process"),
        "{text}"
    );
    runtime().block_on(store.close()).unwrap();
    Store::open(Config::new(directory.path()), ()).unwrap();
}

#[test]
fn the_store_is_readable_by_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("made/for/it");
    let store = Store::open(Config::new(&directory), ()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    runtime().block_on(store.close()).unwrap();
}

#[test]
fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let directory = filled();
    set(directory.path(), "user_version = 4");
    let before = fs::read(directory.path().join("store.db")).unwrap();
    let error = open_error(directory.path());
    assert!(
        matches!(
            error,
            OpenError::NewerFormat {
                found: 4,
                supported: 3,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("store.db"), "{error}");
    assert_eq!(fs::read(directory.path().join("store.db")).unwrap(), before);
}

#[test]
fn a_database_of_something_else_is_refused() {
    let directory = filled();
    set(directory.path(), "application_id = 77");
    assert!(matches!(open_error(directory.path()), OpenError::NotAStore { .. }));
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("store.db"), "hello ".repeat(1000)).unwrap();
    let error = open_error(directory.path());
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("store.db is damaged"), "{error}");
}

#[test]
fn one_changed_byte_is_found_and_its_key_named() {
    let directory = filled();
    overwrite(&directory.path().join("store.db"), "value 42 x", b"value 43 x");
    let error = open_error(directory.path()).to_string();
    assert!(
        error.contains("store.db is damaged: the checksum of /registry/pods/a/p42 at revision 44"),
        "{error}"
    );
}

#[test]
fn a_page_that_was_lost_is_found() {
    let directory = filled();
    let file = directory.path().join("store.db");
    let length = fs::metadata(&file).unwrap().len();
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .write_all_at(&[0; 4096], length / 2 / 4096 * 4096)
        .unwrap();
    assert!(matches!(open_error(directory.path()), OpenError::Damaged { .. }));
}

#[test]
fn a_file_that_was_cut_off_is_found() {
    let directory = filled();
    let file = File::options()
        .write(true)
        .open(directory.path().join("store.db"))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    assert!(matches!(open_error(directory.path()), OpenError::Damaged { .. }));
}

/// The child process of the full disk test: writes each time it reads a number of bytes, and prints the result.
#[test]
#[ignore = "the child process of the full disk test"]
fn child() {
    let Ok(directory) = env::var("STORE_FULL_DIRECTORY") else {
        return;
    };
    let store = Store::open(Config::new(directory), ()).unwrap();
    let runtime = runtime();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let value = Value::plain("x".repeat(line.parse().unwrap()));
        let before = store.snapshot().get(b"/a").map_or(0, |entry| entry.bytes().len());
        let answer = match runtime.block_on(store.commit(Transaction::new().put("/a", value))) {
            Ok(committed) => format!("revision {}", committed.revision),
            Err(CommitError::Storage(error)) => format!("failed {error}"),
            Err(error) => panic!("{error}"),
        };
        println!("answer {answer}; held {before} bytes");
    }
    runtime.block_on(store.close()).unwrap();
}

#[needs(prlimit)]
#[test]
fn a_full_disk_fails_writes_until_there_is_room_again() {
    // The shell sets a limit on the size of files, which a write then exceeds; another tool removes the limit.
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new("sh")
        .args([
            "-c",
            r#"trap '' XFSZ; ulimit -S -f 2000; exec "$0" files::child --exact --ignored --nocapture"#,
        ])
        .arg(env::current_exe().unwrap())
        .env("STORE_FULL_DIRECTORY", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut write = |bytes: usize| {
        writeln!(input, "{bytes}").unwrap();
        answers
            .find_map(|line| line.strip_prefix("answer ").map(str::to_owned))
            .unwrap()
    };
    assert_eq!(write(1_000), "revision 2; held 0 bytes");
    for _ in 0..3 {
        let answer = write(4_000_000);
        assert!(answer.starts_with("failed ") && answer.contains("store.db"), "{answer}");
        assert!(answer.ends_with("held 1000 bytes"), "reads go on: {answer}");
    }
    assert_eq!(write(2_000), "revision 3; held 1000 bytes", "what fits is taken");
    let limit = "--fsize=unlimited:unlimited";
    assert!(
        Command::new("prlimit")
            .args(["--pid", &child.id().to_string(), limit])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(write(4_000_000), "revision 4; held 2000 bytes");
    drop(input);
    assert!(child.wait().unwrap().success());
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert_eq!(
        (store.revision(), store.snapshot().get(b"/a").unwrap().bytes().len()),
        (4, 4_000_000)
    );
}
