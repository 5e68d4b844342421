//! Files of limited size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a file in bytes. It bounds the memory for paths such as `/dev/zero`, which have no end.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Returns the bytes of the file `path`.
///
/// # Errors
/// If it cannot be read, or is larger than the largest file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?)
}

/// Returns the text of the file `path`.
///
/// # Errors
/// Those of [`read`], and an error if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(io::Error::other)
}

/// Returns everything up to the end of the input.
///
/// # Errors
/// If it cannot be read, or is longer than the largest file.
pub fn read_all(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let why = format!("it is larger than {MAX_FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_end_is_an_error() {
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 67108864 bytes");
        assert_eq!(read_all(&b"abc"[..]).unwrap(), b"abc");
    }
}
