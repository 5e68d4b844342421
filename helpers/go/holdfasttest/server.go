package holdfasttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second

	// maxLogBytes is the size of the end of the log that a server keeps for error messages.
	maxLogBytes = 64 << 10
)

// helper is the command that `holdfast run` runs. It prints the path of the kubeconfig, and ends when its standard input
// ends. The server ends with it, even if the process of the test is killed.
const helper = `printf '%s\n' "$KUBECONFIG"; exec cat >/dev/null`

// Server is a running server. Its objects are in memory.
type Server struct {
	*Controls

	kubeconfig []byte
	command    *exec.Cmd
	input      io.Closer
	log        *logTail
	ended      chan struct{}
	exitError  error
	stopped    sync.Once
	stopError  error
}

// Start starts a server that ends with the test. If the test fails, it logs the last lines of the server's timeline.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	server, err := New(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	server.ReportOnFailure(t, "")
	return server
}

// New starts a server for several tests, for example in TestMain. The caller stops it.
func New(options ...Option) (*Server, error) {
	chosen := newOptions(options)
	binary, err := FindBinary(chosen.binary)
	if err != nil {
		return nil, err
	}
	args := append([]string{"run"}, chosen.flags("*")...)
	command := exec.Command(binary, append(args, "--", "sh", "-c", helper)...)
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log := &logTail{}
	command.Stderr = log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("cannot start Holdfast: %w", err)
	}
	server := &Server{command: command, input: input, log: log, ended: make(chan struct{})}
	if err := server.connect(output); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// connect waits until the server is ready and reads its kubeconfig.
func (s *Server) connect(output io.Reader) error {
	type line struct {
		text string
		err  error
	}
	first := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(output).ReadString('\n')
		first <- line{strings.TrimSpace(text), err}
		// Wait closes the pipe, so it follows the last read.
		s.exitError = s.command.Wait()
		close(s.ended)
	}()
	select {
	case read := <-first:
		if read.err != nil {
			<-s.ended
			return fmt.Errorf("Holdfast did not start: %w\n%s", s.exitError, s.log)
		}
		kubeconfig, err := os.ReadFile(read.text)
		if err != nil {
			return fmt.Errorf("cannot read the kubeconfig: %w", err)
		}
		return s.use(kubeconfig)
	case <-time.After(startTimeout):
		return fmt.Errorf("Holdfast did not start within %s\n%s", startTimeout, s.log)
	}
}

func (s *Server) use(kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	// A test is a single client. The server has limits of its own.
	config.QPS, config.Burst = -1, -1
	controls, err := NewControls(config)
	if err != nil {
		return err
	}
	s.kubeconfig, s.Controls = kubeconfig, controls
	return nil
}

// Config returns the configuration of a client with all rights. Each call returns a copy.
func (s *Server) Config() *rest.Config {
	return rest.CopyConfig(s.config)
}

// Kubeconfig returns the kubeconfig of a user with all rights. It contains the certificates.
func (s *Server) Kubeconfig() []byte {
	return append([]byte{}, s.kubeconfig...)
}

// Namespace creates a namespace with a generated name for a test. It is deleted when the test ends. If the test fails, it
// logs the last lines of the timeline of the namespace.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces := clients.CoreV1().Namespaces()
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	namespace, err := namespaces.Create(t.Context(), wanted, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended.
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		if err := namespaces.Delete(ctx, namespace.Name, metav1.DeleteOptions{}); err != nil {
			t.Log(err)
		}
	})
	s.ReportOnFailure(t, namespace.Name)
	return namespace.Name
}

// Log returns the last lines of the log of the server.
func (s *Server) Log() string {
	return s.log.String()
}

// Stop ends the server.
func (s *Server) Stop() error {
	s.stopped.Do(func() {
		s.input.Close()
		select {
		case <-s.ended:
			if s.exitError != nil {
				s.stopError = fmt.Errorf("Holdfast ended: %w\n%s", s.exitError, s.log)
			}
		case <-time.After(stopTimeout):
			s.command.Process.Kill()
			<-s.ended
			s.stopError = fmt.Errorf("Holdfast did not end within %s\n%s", stopTimeout, s.log)
		}
	})
	return s.stopError
}

// logTail keeps the end of what is written to it.
type logTail struct {
	lock sync.Mutex
	text []byte
}

func (l *logTail) Write(part []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.text = append(l.text, part...)
	if excess := len(l.text) - maxLogBytes; excess > 0 {
		l.text = append([]byte{}, l.text[excess:]...)
	}
	return len(part), nil
}

func (l *logTail) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return string(l.text)
}
