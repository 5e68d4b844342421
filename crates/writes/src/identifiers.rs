/// A source of uids and of the suffixes of generated names.
pub trait Identifiers: Send + Sync {
    /// Returns a new uid: a UUID of version 4 in lower case.
    fn uid(&self) -> String;

    /// Returns five letters or digits that complete a `generateName`. They exclude vowels, and digits that look like
    /// them, so that they form no words.
    fn name_suffix(&self) -> String;
}
