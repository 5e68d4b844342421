//! Image in the OCI layout, for several architectures: <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>.
//!
//! The image has the binary, a data directory that belongs to an unprivileged user, and the system's certificate
//! authorities, if this machine has them in the usual file.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::archive::{Entry, FILE_MODE, PROGRAM_MODE, gzip, tar};
use crate::build::Binary;
use crate::checksum::sha256;
use crate::release::Release;

/// User of the image, with no name and no rights.
const USER: u64 = 65_532;

/// Certificate authorities of Debian, Alpine and their descendants.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// Blobs of an image, by their digest.
#[derive(Default)]
struct Blobs {
    blobs: Vec<(String, Vec<u8>)>,
}

impl Blobs {
    /// Adds a blob, and returns its descriptor.
    fn put(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let descriptor = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()});
        if !self.blobs.iter().any(|(name, _)| *name == digest) {
            self.blobs.push((digest, bytes));
        }
        descriptor
    }

    fn put_json(&mut self, media_type: &str, value: &Value) -> Result<Value> {
        Ok(self.put(media_type, serde_json::to_vec(value)?))
    }
}

/// Adds the image of all binaries for Linux as an archive of its layout.
pub(crate) fn add(release: &mut Release, binaries: &[Binary]) -> Result<()> {
    let for_linux: Vec<&Binary> = binaries
        .iter()
        .filter(|binary| binary.target.system == "linux")
        .collect();
    if for_linux.is_empty() {
        return Ok(());
    }
    let authorities = fs::read(AUTHORITIES).unwrap_or_default();
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for binary in for_linux {
        let mut manifest = manifest(release, binary, &authorities, &mut blobs)?;
        manifest["platform"] = json!({"os": "linux", "architecture": binary.target.architecture});
        manifests.push(manifest);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
    let mut reference = blobs.put_json(INDEX_TYPE, &index)?;
    reference["annotations"] = json!({"org.opencontainers.image.ref.name": release.version});
    let root = serde_json::to_vec(&json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [reference]}))?;
    let mut entries = vec![
        Entry {
            path: "oci-layout".to_owned(),
            mode: FILE_MODE,
            bytes: br#"{"imageLayoutVersion":"1.0.0"}"#,
        },
        Entry {
            path: "index.json".to_owned(),
            mode: FILE_MODE,
            bytes: &root,
        },
    ];
    for (digest, bytes) in &blobs.blobs {
        entries.push(Entry {
            path: format!("blobs/sha256/{digest}"),
            mode: FILE_MODE,
            bytes,
        });
    }
    let bytes = tar(&["blobs", "blobs/sha256"], &entries, release.time, 0)?;
    release.put(&format!("holdfast-{}-oci.tar", release.version), &bytes)
}

/// Adds the blobs of one architecture, and returns the descriptor of its manifest.
fn manifest(release: &Release, binary: &Binary, authorities: &[u8], blobs: &mut Blobs) -> Result<Value> {
    let program = Entry {
        path: "holdfast".to_owned(),
        mode: PROGRAM_MODE,
        bytes: &binary.bytes,
    };
    let trusted = Entry {
        path: AUTHORITIES.trim_start_matches('/').to_owned(),
        mode: FILE_MODE,
        bytes: authorities,
    };
    let system = tar(
        &["etc", "etc/ssl", "etc/ssl/certs"],
        &[program, trusted],
        release.time,
        0,
    )?;
    // The user of the image owns the volume and the folder for temporary files.
    let owned = tar(&["data", "tmp"], &[], release.time, USER)?;
    let archives = [system, owned];
    let diff_ids: Vec<String> = archives
        .iter()
        .map(|layer| format!("sha256:{}", sha256(layer)))
        .collect();
    let config = json!({
        "created": timestamp(release.time)?,
        "architecture": binary.target.architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": {"6443/tcp": {}},
            "Entrypoint": ["/holdfast", "--data-dir=/data", "--bind-address=0.0.0.0"],
            "Volumes": {"/data": {}},
            "WorkingDir": "/data",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "holdfast",
                "org.opencontainers.image.description": "A Kubernetes-compatible API server in one binary",
                "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config_reference = blobs.put_json(CONFIG_TYPE, &config)?;
    let layers = archives
        .iter()
        .map(|layer| Ok(blobs.put(LAYER_TYPE, gzip(layer)?)))
        .collect::<Result<Vec<_>>>()
        .context("layers")?;
    blobs.put_json(
        MANIFEST_TYPE,
        &json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config_reference, "layers": layers}),
    )
}

/// Returns a time in the form of RFC 3339.
fn timestamp(seconds: u64) -> Result<String> {
    let time = OffsetDateTime::from_unix_timestamp(i64::try_from(seconds)?)?;
    Ok(time.format(&Rfc3339)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_form_of_rfc_3339() {
        assert_eq!(timestamp(951_827_696).unwrap(), "2000-02-29T12:34:56Z");
    }

    #[test]
    fn image_has_a_manifest_for_each_architecture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("binary");
        fs::write(&path, "program").unwrap();
        let read = |triple: &str| Binary::read(triple.parse().unwrap(), path.clone()).unwrap();
        let binaries = [
            "x86_64-unknown-linux-musl",
            "aarch64-unknown-linux-musl",
            "aarch64-apple-darwin",
        ]
        .map(read);
        let mut release = Release::new(folder.path().join("out"), None).unwrap();
        add(&mut release, &binaries).unwrap();
        let name = format!("holdfast-{}-oci.tar", release.version);
        let bytes = fs::read(folder.path().join("out").join(name)).unwrap();
        let mut files = std::collections::BTreeMap::new();
        let mut archive = tar::Archive::new(bytes.as_slice());
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            files.insert(entry.path().unwrap().display().to_string(), content);
        }
        let blob = |descriptor: &Value| -> Value {
            let digest = descriptor["digest"].as_str().unwrap().trim_start_matches("sha256:");
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(sha256(bytes), digest);
            assert_eq!(descriptor["size"], bytes.len());
            serde_json::from_slice(bytes).unwrap_or(Value::Null)
        };
        let root: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let index = blob(&root["manifests"][0]);
        let manifests = index["manifests"].as_array().unwrap();
        let architectures: Vec<&Value> = manifests.iter().map(|one| &one["platform"]["architecture"]).collect();
        assert_eq!(architectures, ["amd64", "arm64"]);
        let manifest = blob(&manifests[1]);
        let config = blob(&manifest["config"]);
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["architecture"], "arm64");
        for layer in manifest["layers"].as_array().unwrap() {
            blob(layer);
        }
    }
}
