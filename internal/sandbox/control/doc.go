// Package control is the sandbox service: the Orchard Env REST API over a Runtime.
//
// It holds no state of its own. Sandboxes are the Runtime's; jobs and their output
// live in the sandbox's agent; a job's id says which sandbox to ask. So any replica
// answers any request, and one that is killed loses nothing. What it adds is the
// wire: fields, status codes and error bodies that code written for the original's
// Python client expects, and nothing of which it runs twice. Whose a sandbox is, and what a
// key may make, is decided in one place, which every route passes: see tenants.
//
// It never runs a command twice for one submission, never answers "failed" for what
// it could not find out, and never logs a command, an environment or a key.
package control
