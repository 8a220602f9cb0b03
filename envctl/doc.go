// Package envctl is sandboxes by hand: the verbs of the envctl program, over the public
// SDK in envctl/client and nothing else, so whatever envctl does a program can do.
//
// A verb never ends the process: Run returns the exit code, and what the remote command
// said with its exit code is told apart from what envctl says itself (see code.go).
// Standard output is for what was asked for; progress and errors go to standard error.
package envctl
