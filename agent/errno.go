package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// problem is an answer other than success.
type problem struct {
	status       int
	code, detail string
}

func (p *problem) Error() string { return p.detail }

func badRequest(format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, wire.CodeBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *problem {
	return &problem{http.StatusNotFound, wire.CodeNotFound, fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) *problem {
	return &problem{http.StatusConflict, wire.CodeConflict, fmt.Sprintf(format, args...)}
}

func notFile(path, what string) *problem {
	return &problem{http.StatusBadRequest, wire.CodeNotFile, path + ": " + what}
}

// describe is err's cause with its errno's name: "permission denied (EACCES)".
func describe(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Sprintf("%s (%s)", errno.Error(), unix.ErrnoName(errno))
	}
	return err.Error()
}

// fileProblem is the answer for an operation on path that failed with err.
func fileProblem(path string, err error) *problem {
	var known *problem
	if errors.As(err, &known) {
		return known
	}
	p := &problem{http.StatusInternalServerError, wire.CodeInternal, path + ": " + describe(err)}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		if errors.Is(err, fs.ErrNotExist) {
			p.status, p.code = http.StatusNotFound, wire.CodeNotFound
		}
		return p
	}
	switch errno {
	case unix.ENOENT:
		p.status, p.code = http.StatusNotFound, wire.CodeNotFound
	case unix.EACCES, unix.EPERM, unix.EROFS:
		p.status, p.code = http.StatusForbidden, wire.CodeDenied
	case unix.ENOSPC, unix.EDQUOT:
		p.status, p.code = http.StatusInsufficientStorage, wire.CodeNoSpace
	case unix.EISDIR, unix.ENXIO:
		p.status, p.code = http.StatusBadRequest, wire.CodeNotFile
	case unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.EINVAL, unix.EFBIG:
		p.status, p.code = http.StatusBadRequest, wire.CodeBadRequest
	}
	return p
}
