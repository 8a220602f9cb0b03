package cell

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// deniedHere are the calls that only this architecture has: none of interest.
var deniedHere []uintptr
