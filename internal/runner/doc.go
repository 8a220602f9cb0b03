// Package runner is everything a stage must do that is not the stage's idea: open
// the inputs, find a finished result, do the work in a bounded pool, survive being
// killed, commit once, count every row, and say how it ended.
//
// A stage is one of two kinds. Batch is for stages that ask no model: one pass from
// inputs to rows, repeated whole after a kill, with the same bytes. Rollouts is for
// stages made of units that cost time and money: a finished unit is an object that is
// created if absent when the unit ends, and no unit that has one is ever done again.
//
// What always holds:
//
//   - the key of a result is known before the work: a rerun of a committed stage does
//     nothing, and of two concurrent runs one commits and the other adopts;
//   - rows in = rows out + rows dropped by reason, checked before anything is committed;
//   - trouble of ours (an error of Do) is never a row: it is retried, then the unit
//     stays unfinished, and a version with too many of those is not committed;
//   - no listing of a store decides anything.
//
// The package knows no sandbox, model, harness or row type.
package runner
