package slack

import (
	"strings"

	"palyra/internal/call/approval"
	"palyra/internal/core/text"
	"palyra/internal/surface/notify"
)

// message is the body of chat.postMessage and chat.update.
type message struct {
	Channel string `json:"channel"`
	TS      string `json:"ts,omitempty"`
	// Text is the text of Slack's own notifications. Slack interprets it as mrkdwn.
	Text   string  `json:"text"`
	Blocks []block `json:"blocks"`
	// Parse "none" prevents Slack from creating links and mentions.
	Parse       string `json:"parse"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
}

// block, element and words are the used parts of Block Kit.
type block struct {
	Type     string    `json:"type"`
	BlockID  string    `json:"block_id,omitempty"`
	Text     *words    `json:"text,omitempty"`
	Label    *words    `json:"label,omitempty"`
	Elements []element `json:"elements,omitempty"`
	Element  *element  `json:"element,omitempty"`
}

type element struct {
	Type     string    `json:"type"`
	ActionID string    `json:"action_id,omitempty"`
	Text     any       `json:"text,omitempty"`
	URL      string    `json:"url,omitempty"`
	Value    string    `json:"value,omitempty"`
	Style    string    `json:"style,omitempty"`
	Confirm  *confirm  `json:"confirm,omitempty"`
	Elements []element `json:"elements,omitempty"`
	// Multiline and MaxLength apply to inputs.
	Multiline bool `json:"multiline,omitempty"`
	MaxLength int  `json:"max_length,omitempty"`
}

type confirm struct {
	Title   words `json:"title"`
	Text    words `json:"text"`
	Confirm words `json:"confirm"`
	Deny    words `json:"deny"`
}

type words struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji,omitempty"`
}

// plain returns text in which Slack interprets no markup, mentions or emoji.
func plain(text string) words {
	no := false
	return words{Type: "plain_text", Text: text, Emoji: &no}
}

// The actions of a message.
const (
	actionAllow = "palyra_allow"
	actionDeny  = "palyra_deny"
	actionOpen  = "palyra_open"
	viewDeny    = "palyra_deny_reason"
	inputReason = "reason"
)

// maxText is the highest length of the text of a message, in bytes. A longer message has no
// buttons, because a vote requires that the whole call is displayed.
const maxText = 10_000

// blocks returns the blocks of a message. The requester wrote part of the text. The text is
// therefore in a preformatted element, in which Slack interprets no markup.
func (s *Channel) blocks(m notify.Message, d notify.Description) []block {
	link := d.Link
	d.Link = ""
	content := notify.Text(d)
	whole := len(content) <= maxText && (d.Approval == nil || !d.Approval.Truncated)
	if !whole {
		content = text.Ellipsis(content, maxText)
	}
	head := plain(d.Text)
	list := []block{
		{Type: "section", Text: &head},
		{Type: "rich_text", Elements: []element{{Type: "rich_text_preformatted", Elements: []element{{Type: "text", Text: content}}}}},
	}
	var buttons []element
	if r := m.Notice.Approval; whole && s.answerable(m, r) {
		buttons = append(buttons, votes(r)...)
	}
	if link != "" {
		buttons = append(buttons, element{Type: "button", ActionID: actionOpen, Text: plain("Open"), URL: link})
	}
	if len(buttons) > 0 {
		list = append(list, block{Type: "actions", Elements: buttons})
	}
	return list
}

// answerable reports whether a message has buttons to answer.
func (s *Channel) answerable(m notify.Message, r *approval.Record) bool {
	return s.use.Voter != nil && m.Include == notify.IncludeFull && r != nil && r.State == approval.Pending && r.Withheld == nil && notify.CannotDecideInChat(*r) == nil
}

// votes returns the buttons to answer a call.
func votes(r *approval.Record) []element {
	value := r.ID + "/" + r.CallDigest
	return []element{
		{
			Type: "button", ActionID: actionAllow, Text: plain("Allow once"), Value: value,
			Confirm: &confirm{
				Title: plain("Allow this call?"), Text: plain("It runs once, exactly as displayed. Your vote is recorded under your name."),
				Confirm: plain("Allow once"), Deny: plain("Back"),
			},
		},
		{Type: "button", ActionID: actionDeny, Text: plain("Deny"), Style: "danger", Value: value},
	}
}

// parseValue parses the value of a button or a view.
func parseValue(value string) (id, digest string, ok bool) { return strings.Cut(value, "/") }

// view is a modal dialog.
type view struct {
	Type            string  `json:"type"`
	CallbackID      string  `json:"callback_id"`
	PrivateMetadata string  `json:"private_metadata"`
	Title           words   `json:"title"`
	Submit          words   `json:"submit"`
	Close           words   `json:"close"`
	Blocks          []block `json:"blocks"`
}

func reasonView(value, channel string) view {
	label := plain("Reason (the requester receives it)")
	return view{
		Type: "modal", CallbackID: viewDeny, PrivateMetadata: value + "/" + channel, Title: plain("Deny this call"), Submit: plain("Deny"), Close: plain("Back"),
		Blocks: []block{{
			Type: "input", BlockID: inputReason, Label: &label,
			Element: &element{Type: "plain_text_input", ActionID: inputReason, Multiline: true, MaxLength: 1000},
		}},
	}
}

// escape escapes text for fields that Slack interprets as mrkdwn. The result has no mentions,
// links or markup (Slack's formatting rules). Characters of emphasis are replaced by
// look-alikes.
func escape(content string) string {
	return escaper.Replace(text.Visible(content))
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "∗", "_", "＿", "~", "∼", "`", "ˋ")
