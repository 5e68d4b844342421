// A kubelet without containers: it serves logs, commands, attachments and forwarded ports with the code of real kubelets
// (k8s.io/cri-streaming). Commands run on the host.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const timeout = time.Minute

type runtime struct{}

// ExecInContainer runs a command of the host.
func (runtime) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if tty {
		size := <-resize
		fmt.Fprintf(out, "%dx%d\r\n", size.Width, size.Height)
	}
	command := exec.CommandContext(ctx, cmd[0], cmd[1:]...)
	if in != nil {
		// The command may end before its input.
		pipe, err := command.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			io.Copy(pipe, in)
			pipe.Close()
		}()
	}
	if out != nil {
		command.Stdout = out
	}
	if errOut != nil {
		command.Stderr = errOut
	}
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

// AttachContainer echoes the input.
func (runtime) AttachContainer(_ context.Context, name, _, container string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprintf(out, "attached to %s of %s\n", container, name)
	if in != nil {
		_, err := io.Copy(out, in)
		return err
	}
	return nil
}

// PortForward connects to a port of the host.
func (runtime) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		io.Copy(connection, stream)
		connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

// logs writes the parameters of a request, and the numbers of lines of a log.
func logs(w http.ResponseWriter, req *http.Request) {
	if strings.HasSuffix(req.URL.Path, "/missing") {
		http.Error(w, "no such log", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %s\n", req.URL.Path, req.URL.RawQuery)
	if req.FormValue("follow") != "true" {
		return
	}
	for line := 1; line <= 3; line++ {
		w.(http.Flusher).Flush()
		time.Sleep(100 * time.Millisecond)
		fmt.Fprintf(w, "line %d\n", line)
	}
}

func handle(w http.ResponseWriter, req *http.Request) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	options, err := remotecommand.NewOptions(req)
	switch {
	case parts[0] == "containerLogs":
		logs(w, req)
	case parts[0] == "portForward":
		ports, err := portforward.NewV4Options(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, req, runtime{}, parts[2], "", ports, timeout, timeout, portforward.SupportedProtocols)
	case parts[0] != "exec" && parts[0] != "attach":
		fmt.Fprintf(w, "%s %s\n", req.Method, req.URL)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case parts[0] == "exec":
		command := req.URL.Query()["command"]
		remotecommand.ServeExec(w, req, runtime{}, parts[2], "", parts[3], command, options, timeout, timeout, remotecommand.SupportedStreamingProtocols)
	default:
		remotecommand.ServeAttach(w, req, runtime{}, parts[2], "", parts[3], options, timeout, timeout, remotecommand.SupportedStreamingProtocols)
	}
}

func main() {
	certificate := flag.String("cert", "", "certificate of the server")
	key := flag.String("key", "", "its key")
	clients := flag.String("client-ca", "", "authorities of clients")
	address := flag.String("address", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	own, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}}
	if *clients != "" {
		authorities, err := os.ReadFile(*clients)
		if err != nil {
			log.Fatal(err)
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(authorities)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(tls.NewListener(listener, config), http.HandlerFunc(handle)))
}
