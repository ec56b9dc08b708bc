/* The first n of a vector's elements of 16 and 8 bits, through memory: for instruction sets whose masks know floats alone. Included
 * by their vocabulary, once whole vectors can be loaded and stored. */
#ifndef HEED_PART_LANES_H
#define HEED_PART_LANES_H

INLINE vh v_load_half_n(const uint16_t *p, int64_t n) {
    uint16_t lanes[VF_LANES] = {0};
    if (n >= VF_LANES)
        return v_load_half(p);
    for (int64_t i = 0; i < n; i++)
        lanes[i] = p[i];
    return v_load_half(lanes);
}
INLINE void v_store_half_n(uint16_t *p, vh x, int64_t n) {
    uint16_t lanes[VF_LANES];
    if (n >= VF_LANES) {
        v_store_half(p, x);
        return;
    }
    v_store_half(lanes, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = lanes[i];
}
INLINE vf v_load_i8_n(const int8_t *p, int64_t n) {
    int8_t lanes[VF_LANES] = {0};
    if (n >= VF_LANES)
        return v_load_i8(p);
    for (int64_t i = 0; i < n; i++)
        lanes[i] = p[i];
    return v_load_i8(lanes);
}
INLINE void v_store_i8_n(int8_t *p, vf x, int64_t n) {
    int8_t lanes[VF_LANES];
    if (n >= VF_LANES) {
        v_store_i8(p, x);
        return;
    }
    v_store_i8(lanes, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = lanes[i];
}

#endif
