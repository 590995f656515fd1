package text

import "unicode"

// Class is the visibility of a character to a reader.
type Class uint8

// The classes. Newline and tab are Hidden; code that displays several lines keeps them.
const (
	// Seen is visible as it is.
	Seen Class = iota
	// Blank resembles a space but is another character.
	Blank
	// Hidden is invisible, or changes how the surrounding text is displayed.
	Hidden
)

// unseen are the invisible letters, marks and symbols. No category or property of Unicode
// covers them.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034F, Hi: 0x034F, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115F, Hi: 0x1160, Stride: 1}, // fillers of Hangul
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1}, // inherent vowels of Khmer
		{Lo: 0x180B, Hi: 0x180F, Stride: 1}, // Mongolian variation selectors
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // filler of Hangul
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1}, // filler of Hangul, half as wide
	},
}

// braille is the pattern without dots, a symbol that resembles a space.
const braille = 0x2800

// ClassOf returns the visibility of a character. It is used for the prompts of approvals, the
// CLI, the console, texts of upstream servers, and names of files at the commit gate.
func ClassOf(r rune) Class {
	switch {
	case r >= ' ' && r <= '~':
		return Seen
	case r == braille, unicode.Is(unicode.Zs, r):
		return Blank
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point, unseen):
		return Hidden
	}
	return Seen
}

// Unseen reports whether a character is invisible or resembles a space.
func Unseen(r rune) bool { return ClassOf(r) != Seen }
