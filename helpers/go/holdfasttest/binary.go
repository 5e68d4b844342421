package holdfasttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// BinaryVariable is the environment variable with the path of the binary.
const BinaryVariable = "HOLDFAST"

// ErrNoBinary is the error if no binary of Holdfast is found.
var ErrNoBinary = errors.New("there is no holdfast: set " + BinaryVariable + " to its path, or add its directory to PATH")

// FindBinary returns the path of the binary: explicit if it is not empty, the value of HOLDFAST, or the first one in PATH.
func FindBinary(explicit string) (string, error) {
	for _, path := range []string{explicit, os.Getenv(BinaryVariable)} {
		if path == "" {
			continue
		}
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("holdfast: %w", err)
		}
		return found, nil
	}
	found, err := exec.LookPath("holdfast")
	if err != nil {
		return "", ErrNoBinary
	}
	return found, nil
}
