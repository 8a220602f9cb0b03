// Package agent is the server inside a sandbox: it runs commands, moves files and
// ends the sandbox when its lease runs out. The routes are agent/wire's.
//
// What it holds to:
//
//   - Nothing but health is answered without a controller's signature for this sandbox.
//   - A job id runs at most once. Jobs run one after the other, in the order they
//     came, unless a job asks to be concurrent; everything else never queues.
//   - A job ends when its own process ends. What it left in the background lives on,
//     until the job is killed or times out: then every descendant dies, also one that
//     made its own session or lost its parent.
//   - Memory does not grow with what commands print or files hold: streams go to the
//     spool folder and come back from there. A full disk costs a command's output its
//     middle, never the command itself.
//   - A command whose output nobody reads does not block; a program on a terminal waits
//     for the client that is attached, and dies with it unless it was to be kept.
//   - Who may reach a port of the sandbox is held here, so that a grant that ends takes
//     its connections along whichever controller they came through.
//
// It never interprets what it runs, reaches out to nothing but the sandbox's own ports
// and, before anything runs, what must be out of reach, and trusts
// nothing that user code can write, the spool folder's contents included.
//
// Run takes over all children of its process (it reaps orphans, as PID 1 must), so
// nothing else in that process may start or wait for one. As PID 1 of its own PID
// namespace the agent cannot be killed from inside; started otherwise, user code of
// the same uid can end it with kill -9, which its controller sees as a lost sandbox.
package agent
