//! The one configured secret, and the keys that are derived from it.

use std::{
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::Sha256;

use crate::config::{SECRET_KEY_MIN_CHARS, SecretKeySource};

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Fixed, because the same passphrase must give the same key on every machine.
const PASSPHRASE_SALT: &[u8] = b"trigger-manager secret_key v1";

/// 32 secret bytes from which every other key is derived. `Debug` shows nothing of them.
#[derive(Debug)]
pub struct SecretKey(SecretBox<[u8; 32]>);

/// Why there is no secret key.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    /// The text is too short.
    #[error(
        "secret_key is too short; write 32 random bytes in base64, or a passphrase of at least \
         {SECRET_KEY_MIN_CHARS} characters"
    )]
    TooShort,
    /// The text would not be a key in a key file.
    #[error("a key file must hold 32 bytes in base64; make them with openssl rand -base64 32")]
    NoFileKey,
    /// The key's file holds something else.
    #[error("{0} holds no key; restore the file, or set secret_key to the key that was used")]
    BadFile(PathBuf),
    /// The key's file can't be read or made.
    #[error(
        "the key file {path} can't be used: {source}; make its directory writable, or set secret_key"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The passphrase could not be stretched: not enough memory.
    #[error("the passphrase could not be turned into a key: {0}")]
    Stretch(argon2::Error),
}

impl SecretKey {
    /// The key that the configuration names.
    ///
    /// A missing file is made, with its directory, readable by its owner only. Two processes
    /// that start at once get the same key; a crash leaves a whole file or none. Blocks on
    /// the disk: for the start only.
    ///
    /// # Errors
    /// A file that can't be read or written, or holds no key. An existing file is never
    /// overwritten.
    pub fn resolve(source: &SecretKeySource) -> Result<Self, SecretKeyError> {
        match source {
            SecretKeySource::Given(text) => Self::from_text(text),
            SecretKeySource::File(path) => Self::from_file(path),
        }
    }

    /// 32 bytes in base64 (either alphabet, padded or not) are the key; any other text of at
    /// least 16 characters is a passphrase, stretched with Argon2id (RFC 9106).
    ///
    /// # Errors
    /// [`SecretKeyError::TooShort`].
    pub fn from_text(text: &SecretString) -> Result<Self, SecretKeyError> {
        let text = text.expose_secret();
        if let Some(key) = Self::from_base64(text) {
            return Ok(key);
        }
        if text.chars().count() < SECRET_KEY_MIN_CHARS {
            return Err(SecretKeyError::TooShort);
        }
        // Written out: a library's new default would make every stored secret unreadable.
        let params = Params::new(19_456, 2, 1, Some(32)).map_err(SecretKeyError::Stretch)?;
        let mut bytes = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(text.as_bytes(), PASSPHRASE_SALT, &mut bytes)
            .map_err(SecretKeyError::Stretch)?;
        Ok(Self(SecretBox::new(Box::new(bytes))))
    }

    /// The key of a key file: 32 bytes in base64, and no passphrase.
    ///
    /// # Errors
    /// [`SecretKeyError::NoFileKey`].
    pub fn from_file_text(text: &SecretString) -> Result<Self, SecretKeyError> {
        Self::from_base64(text.expose_secret()).ok_or(SecretKeyError::NoFileKey)
    }

    /// A new random key.
    pub fn generate() -> Self {
        Self(SecretBox::init_with(rand::random))
    }

    /// A key for one purpose: HKDF-Expand of RFC 5869 with the purpose as info, 32 bytes.
    pub(super) fn derive(&self, purpose: &'static str) -> SecretBox<[u8; 32]> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret())
            .expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.update(&[1]);
        SecretBox::new(Box::new(mac.finalize().into_bytes().into()))
    }

    /// Eight hexadecimal digits that tell keys apart and reveal nothing.
    pub(super) fn id(&self) -> String {
        let id = self.derive("trigger-manager key id v1");
        id.expose_secret().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }

    fn from_base64(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text).or_else(|_| BASE64_URL.decode(text)).ok()?;
        Some(Self(SecretBox::new(Box::new(bytes.try_into().ok()?))))
    }

    fn from_file(path: &Path) -> Result<Self, SecretKeyError> {
        let failed = |source| SecretKeyError::File { path: path.to_owned(), source };
        match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                write_once(path, &Self::generate()).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
            Ok(_) => {}
        }
        // Read again: another process may have been first.
        let text = fs::read_to_string(path).map_err(failed)?;
        Self::from_base64(text.trim()).ok_or_else(|| SecretKeyError::BadFile(path.to_owned()))
    }
}

/// Writes the file whole and only if there is none: a hard link appears at once or fails.
fn write_once(path: &Path, key: &SecretKey) -> std::io::Result<()> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(directory)?;
    }
    let draft = path.with_extension(format!("{}.tmp", uuid::Uuid::now_v7()));
    let written = write_private(&draft, &STANDARD.encode(key.0.expose_secret())).and_then(|()| {
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    let removed = fs::remove_file(&draft);
    written.and(removed)
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own for one test, gone when the test is over.
    struct TestDirectory(PathBuf);

    impl TestDirectory {
        fn new() -> Self {
            Self(std::env::temp_dir().join(format!("pfy-key-{}", uuid::Uuid::now_v7())))
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn from_text(text: &str) -> SecretKey {
        SecretKey::from_text(&SecretString::from(text)).unwrap()
    }

    #[test]
    fn base64_in_any_spelling_is_the_same_key() {
        let standard = "+/8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0=";
        let bytes = STANDARD.decode(standard).unwrap();
        for text in [standard, "-_8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0"] {
            assert_eq!(from_text(text).0.expose_secret().as_slice(), bytes);
        }
    }

    #[test]
    fn a_passphrase_gives_the_same_key_on_every_machine() {
        let key = from_text("correct horse battery staple");
        assert_eq!(key.id(), from_text("correct horse battery staple").id());
        assert_ne!(key.id(), from_text("correct horse battery stapla").id());
        // A literal, so that a changed parameter, which would lose all stored secrets, fails.
        assert_eq!(key.id(), "89785878");
    }

    #[test]
    fn fifteen_characters_are_too_short() {
        let text = |text: &str| SecretKey::from_text(&SecretString::from(text));
        assert!(matches!(text("123456789012345"), Err(SecretKeyError::TooShort)));
        assert!(text("1234567890123456").is_ok());
    }

    #[test]
    fn purposes_have_different_keys() {
        let key = SecretKey::generate();
        assert_ne!(key.derive("a").expose_secret(), key.derive("b").expose_secret());
        assert_ne!(key.derive("a").expose_secret(), key.0.expose_secret());
    }

    #[test]
    fn the_key_file_is_made_once_and_only_its_owner_reads_it() {
        let directory = TestDirectory::new();
        let path = directory.0.join("data/secret.key");
        let source = SecretKeySource::File(path.clone());
        let first = SecretKey::resolve(&source).unwrap();
        assert_eq!(SecretKey::resolve(&source).unwrap().id(), first.id());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn processes_that_start_at_once_get_the_same_key() {
        let directory = TestDirectory::new();
        let source = SecretKeySource::File(directory.0.join("secret.key"));
        let barrier = std::sync::Barrier::new(8);
        let ids: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                SecretKey::resolve(&source).unwrap().id()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(ids.len(), 1);
    }

    #[test]
    fn a_damaged_key_file_is_refused_and_left_alone() {
        let directory = TestDirectory::new();
        fs::create_dir_all(&directory.0).unwrap();
        let path = directory.0.join("secret.key");
        fs::write(&path, "not a key").unwrap();
        let error = SecretKey::resolve(&SecretKeySource::File(path.clone())).unwrap_err();
        assert!(matches!(error, SecretKeyError::BadFile(_)), "{error}");
        assert_eq!(fs::read_to_string(path).unwrap(), "not a key");
    }

    #[test]
    fn a_key_shows_nothing_of_itself() {
        let key = SecretKey(SecretBox::new(Box::new([7; 32])));
        assert!(!format!("{key:?}").contains('7'));
    }
}
