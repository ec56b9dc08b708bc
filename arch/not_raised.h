/* Bytes as floats, of vocabularies in which raising them saves nothing. */
#ifndef HEED_NOT_RAISED_H
#define HEED_NOT_RAISED_H

#define VF_RAISES         0
#define VF_RAISED_BYTE    0.0f
#define VF_RAISED_INT4(i) 0.0f
INLINE vf v_raised_byte(vi x, const int i) { return v_byte(x, i); }
INLINE vf v_raised_int4(vi x, const int i) { return v_int4(x, i); }

#endif
