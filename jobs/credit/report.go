package credit

import (
	"context"
	"encoding/json"
	"maps"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/jobs/credit/calibration"
)

// report makes calibration.json and calibration.md of a version; compare may be nil.
func report(ctx context.Context, v, compare *datasets.Version, put func(name string, b []byte) error) error {
	r := calibration.New()
	maps.Copy(r.Dropped, v.Manifest().Dropped)
	var other *datasets.Seeker[record.Credit]
	if compare != nil {
		r.Compared = &calibration.Comparison{With: compare.Location().Name + "@" + compare.Digest()}
		other = datasets.Seek[record.Credit](ctx, compare)
		defer other.Close()
	}
	for row, err := range datasets.Rows[record.Credit](ctx, v) {
		if err != nil {
			return err
		}
		r.Add(row)
		if other == nil {
			continue
		}
		b, ok, err := other.Row(row.RolloutID)
		if err != nil {
			return err
		}
		if ok {
			r.Compared.Compare(row, b)
		}
	}
	r.Close()
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = put("calibration.json", append(raw, '\n'))
	}
	if err != nil {
		return err
	}
	return put("calibration.md", r.Markdown())
}
