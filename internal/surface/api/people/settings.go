package people

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// CheckResult is the result of one check of the doctor (package doctor).
type CheckResult struct {
	Check, Result, Detail, Remedy string
	TookMS                        int64
}

// GetSettings returns the effective settings.
func (s *ConsoleService) GetSettings(context.Context, *palyrav1.GetSettingsRequest) (*palyrav1.GetSettingsResponse, error) {
	res := &palyrav1.GetSettingsResponse{File: s.About.Settings.Source}
	for _, one := range config.Settings(s.About.Settings, s.About.Origins) {
		origin := one.Origin
		if origin.Source == "" {
			origin.Source = config.SourceDefault
		}
		res.Settings = append(res.Settings, &palyrav1.Setting{Key: one.Key, Toml: one.TOML, Origin: origin.String(), Source: string(origin.Source)})
	}
	return res, nil
}

// Examine runs all checks of the doctor. Only one examination runs at a time, because the checks
// create sandboxes.
func (s *ConsoleService) Examine(ctx context.Context, _ *palyrav1.ExamineRequest) (*palyrav1.ExamineResponse, error) {
	if !s.examining.CompareAndSwap(false, true) {
		return nil, reason.Errorf(reason.RateLimited, "an examination is already running").WithRemedy("Try again in a few seconds.").WithField("retry_after", "5s")
	}
	defer s.examining.Store(false)
	res := &palyrav1.ExamineResponse{At: timestamppb.Now()}
	for _, e := range s.About.Examine(ctx) {
		res.Exams = append(res.Exams, &palyrav1.Exam{Check: e.Check, Result: e.Result, Detail: e.Detail, Remedy: e.Remedy, TookMs: e.TookMS})
	}
	return res, ctx.Err()
}
