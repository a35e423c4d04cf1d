package postgrestest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// newAttributes gives the folder to the user as whom both run. The server ends with the process
// that started it, however that ends.
func newAttributes(dir string) (attributes, error) {
	credential, err := anotherUser(dir)
	return attributes{
		initial: &syscall.SysProcAttr{Credential: credential},
		server:  &syscall.SysProcAttr{Credential: credential, Setpgid: true, Pdeathsig: syscall.SIGQUIT},
	}, err
}

// anotherUser gives the folder to a user other than root, as whom the server must run; nil
// where the tests do not run as root.
func anotherUser(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		who, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(who.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(who.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("there is no user postgres or nobody to run a server as")
}
