package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinaryEnv names the environment variable with the path of the proxy program.
const BinaryEnv = "TOLLGATE_PROXY_BINARY"

const binaryName = "tollgate-proxy"

var errNoBinary = errors.New("the proxy program is missing")

// findBinary returns the absolute path of tollgate-proxy: the configured one,
// the environment's, the one beside the running program, the one in PATH. The
// first that is named decides; it is an error if it does not work.
func (p *Provider) findBinary() (string, error) {
	if p.opt.binary != "" {
		return checkBinary("binary", p.opt.binary)
	}
	if path := os.Getenv(BinaryEnv); path != "" {
		return checkBinary(BinaryEnv, path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := checkBinary("", filepath.Join(filepath.Dir(self), binaryName)); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath(binaryName); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("%w: %s is neither beside this program nor in PATH: run 'make build', "+
		"or name it in %s or in the provider's setting local.binary", errNoBinary, binaryName, BinaryEnv)
}

func checkBinary(field, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %s: %w: run 'make build', or name another path", errNoBinary, field, err)
	case !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("%w: %s: %q is no executable file: run 'make build', or name another path", errNoBinary, field, path)
	}
	return path, nil
}
