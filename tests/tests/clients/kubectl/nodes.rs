//! Logs, commands and forwarded ports of kubectl, with a kubelet that runs commands on this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use conformance::aggregated::Certificates;
use conformance::tool::Tool;
use conformance::{Binary, Server};
use test_support::needs;

use crate::go_clients::program;

/// Settings of kubectl for commands over WebSockets and over SPDY.
const TRANSPORTS: [(&str, &str); 2] = [("WebSockets", "true"), ("SPDY", "false")];

/// A server with a Pod on a node of a kubelet.
struct Node {
    kubectl: Tool,
    kubelet: Child,
    _certificates: Certificates,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kubelet.kill();
        let _ = self.kubelet.wait();
    }
}

impl Node {
    fn start() -> Self {
        let certificates = Certificates::new("kubelet");
        let file = |name: &str| certificates.path(name).display().to_string();
        let mut kubelet = Command::new(program("kubelet", "./fakekubelet"))
            .args([
                "-cert",
                &file("back.crt"),
                "-key",
                &file("back.key"),
                "-client-ca",
                &file("proxy-ca.crt"),
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(kubelet.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        let owned_flags = [
            format!("--kubelet-client-certificate={}", file("proxy.crt")),
            format!("--kubelet-client-key={}", file("proxy.key")),
            format!("--kubelet-certificate-authority={}", file("back-ca.crt")),
            format!("--kubelet-port={}", port.trim()),
        ];
        let flags = owned_flags.each_ref().map(String::as_str);
        let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
        let node = Self {
            kubectl: Tool::with_server("kubectl", server),
            kubelet,
            _certificates: certificates,
        };
        node.fill();
        node
    }

    /// Makes a node and a running Pod on it.
    fn fill(&self) {
        let node = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}"#;
        self.kubectl.says(&["create", "-f", "-"], node);
        let status = r#"{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}"#;
        self.kubectl.says(
            &[
                "patch",
                "node",
                "one",
                "--subresource=status",
                "--type=merge",
                "-p",
                status,
            ],
            "",
        );
        let _ = self.kubectl.output(&["create", "serviceaccount", "default"], "");
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"nodeName": "one",
            "containers": [{"name": "c", "image": "i", "stdin": true}]}}"#;
        self.kubectl.says(&["create", "-f", "-"], pod);
        let status = r#"{"status": {"phase": "Running"}}"#;
        self.kubectl.says(
            &[
                "patch",
                "pod",
                "web",
                "--subresource=status",
                "--type=merge",
                "-p",
                status,
            ],
            "",
        );
    }

    /// Returns a call of kubectl over WebSockets or SPDY.
    fn command(&self, websockets: &str, arguments: &[&str]) -> Command {
        let mut command = self.kubectl.command(arguments);
        command
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        command
    }

    /// Returns the code, the output and the errors of a call with that input.
    fn run(&self, websockets: &str, arguments: &[&str], input: &[u8]) -> (i32, Vec<u8>, String) {
        let mut child = self
            .command(websockets, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), output.stdout, errors)
    }
}

#[needs(clients, go, kubectl)]
#[test]
fn kubectl_reads_logs_and_runs_commands() {
    let node = Node::start();
    let logs = node.kubectl.says(&["logs", "web", "--tail=3", "--timestamps"], "");
    assert_eq!(logs, "/containerLogs/default/web/c tailLines=3&timestamps=true\n");
    let followed = node.kubectl.says(&["logs", "-f", "web"], "");
    assert!(followed.ends_with("line 1\nline 2\nline 3\n"), "{followed}");
    for (transport, websockets) in TRANSPORTS {
        let exec = |arguments: &[&str], input: &[u8]| {
            let arguments = [&["exec"], arguments].concat();
            node.run(websockets, &arguments, input)
        };
        let (code, output, errors) = exec(&["web", "--", "sh", "-c", "echo out; echo err >&2; exit 3"], b"");
        assert_eq!((code, output.as_slice()), (3, &b"out\n"[..]), "{transport}: {errors}");
        assert!(
            errors.contains("err\n") && errors.contains("exit code 3"),
            "{transport}: {errors}"
        );
        // More than all buffers hold, in both directions at once, to its last byte.
        let large = vec![b'x'; 8 << 20];
        let (code, output, errors) = exec(&["-i", "web", "--", "cat"], &large);
        assert_eq!((code, output.len()), (0, large.len()), "{transport}: {errors}");
        let (code, _, errors) = exec(&["web", "--", "no-such-program"], b"");
        assert!(code != 0 && errors.contains("no-such-program"), "{transport}: {errors}");
        let (code, output, errors) = node.run(websockets, &["attach", "-i", "web"], b"hello\n");
        let output = String::from_utf8_lossy(&output);
        assert_eq!(code, 0, "{transport}: {errors}");
        assert!(
            output.contains("attached to c of web\nhello\n"),
            "{transport}: {output}"
        );
    }
}

#[needs(clients, go, kubectl)]
#[test]
fn kubectl_copies_files_and_forwards_ports() {
    let node = Node::start();
    let folder = tempfile::tempdir().unwrap();
    for (transport, websockets) in TRANSPORTS {
        let copy = folder.path().join(transport).display().to_string();
        let original = node.kubectl.file("original", "some text");
        let (code, _, errors) = node.run(websockets, &["cp", &original, &format!("web:{copy}")], b"");
        assert_eq!(code, 0, "{transport}: {errors}");
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "some text", "{transport}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = vec![0; 4];
            stream.read_exact(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let mut forward = node
            .command(websockets, &["port-forward", "pod/web", &format!(":{port}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        // The pipe stays open: kubectl ends if it cannot print that a connection arrives.
        let mut printed = BufReader::new(forward.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        // Forwarding from 127.0.0.1:PORT -> PORT
        let local = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", local.unwrap_or_default())).unwrap();
        stream.write_all(b"ping").unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        assert_eq!(received, "ping", "{transport}: {line}");
        echo.join().unwrap();
        forward.kill().unwrap();
        forward.wait().unwrap();
    }
}
