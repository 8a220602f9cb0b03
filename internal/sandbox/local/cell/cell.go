// Package cell is the first thing that runs in a local sandbox: between the fork into
// fresh namespaces and the agent. It is linked into orchard-agent, so that making a
// sandbox needs one small static program and no hook in any other.
//
// A service starts the agent's binary with Variable set, in new namespaces, with a
// socket on ConfigFD over which it sends a Config (Send) and from which it reads: nothing,
// and its end, once the agent runs; or the text of what went wrong. The cell builds
// the root file system, gives up every privilege that builds one, and executes
// Config.Argv as process 1.
//
// Invariants: mounts are made from trees that were opened before any file of the
// sandbox's was looked at, and inside the new root only, so that no symbolic link of an
// image leads outside; no descriptor but standard error and the listener's is open in
// the agent; nothing that Config.Argv starts can mount, make namespaces, load code into
// the kernel or outlive the thread that made the sandbox.
//
// It imports the standard library and x/sys only.
package cell

// Variable is the environment variable that makes the agent's binary a cell.
const Variable = "ORCHARD_CELL"

// The values of Variable.
const (
	setup = "setup" // build the sandbox, then execute the agent
	agent = "agent" // be the agent of a sandbox that a cell built
)

// Descriptors that the service passes.
const (
	ListenFD = 3 // the listening socket that the agent serves on, and the only one it keeps
	ConfigFD = 4 // a stream socket: trees and Config in, the error out
	AgentFD  = 5 // the agent's binary, executed by its descriptor
)

// Refusal begins the text of an error that is the root file system's own fault: every
// other try would end the same.
const Refusal = "refused: "

// Probed is what a cell reports that was only to be tried, and that could be built.
const Probed = "probed"

// Environ is the environment of a process that becomes a cell.
func Environ() []string { return []string{Variable + "=" + setup} }

// Config is the sandbox to build.
type Config struct {
	Hostname string `json:"hostname"`
	// Box holds the upper and work folders that Overlays name. The sandbox's root owns it.
	Box Tree `json:"box"`
	// Overlays are mounted in their order; the first is the root.
	Overlays []Overlay `json:"overlays"`
	// Mounts are attached in the new root, in their order.
	Mounts []Mount `json:"mounts"`
	// Files are written into the new root when it is new, over what is there.
	Files []File `json:"files"`
	// Workdir is made when absent and owned by UID.
	Workdir string `json:"workdir"`
	// Agent is where in the sandbox the agent's binary is mounted, read-only.
	Agent Mount `json:"agent"`
	// Argv and Env are the agent's; Argv[0] is Agent.Target.
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	// UID and GID are the agent's and its commands', as the sandbox counts them.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// SharedMemory is the size of /dev/shm in bytes.
	SharedMemory int64 `json:"shared_memory"`
	// Probe builds everything and reports Probed instead of executing the agent.
	Probe bool `json:"probe,omitempty"`
	// DataLimit and ProcessLimit bound a process's private memory, in bytes, and the
	// number of processes where cgroups do not; 0 is no bound.
	DataLimit    uint64 `json:"data_limit"`
	ProcessLimit uint64 `json:"process_limit"`
}

// Tree is a folder or file outside. With Sent, counted from 1, it is a mount that the
// service has detached with OpenTree and sent; with 0 the cell opens Source itself.
type Tree struct {
	Sent   int    `json:"sent,omitempty"`
	Source string `json:"source,omitempty"`

	fd int // in the cell
}

// Overlay is a read-only Lower under a private upper folder.
type Overlay struct {
	Lower  Tree   `json:"lower"`
	Upper  string `json:"upper"` // a name in Config.Box
	Work   string `json:"work"`  // a name in Config.Box
	Target string `json:"target"`
}

// Mount shows a tree, read-only and without set-user-id or devices, at Target. Its
// parents are made. Symlinks in Target are followed inside the new root.
type Mount struct {
	Tree
	Target string `json:"target"`
}

// File is a small file to write.
type File struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
	Data string `json:"data"`
}
