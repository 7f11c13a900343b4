#include "lcms2.h"
#include "text.h"

int main(void) {
  cmsHPROFILE rgb = cmsCreate_sRGBProfile(), lab = cmsCreateLab4Profile(NULL);
  for (int intent = 0; intent < 4; ++intent) {
    cmsHTRANSFORM to = cmsCreateTransform(rgb, TYPE_RGB_8, lab, TYPE_Lab_DBL, (cmsUInt32Number)intent, 0);
    cmsHTRANSFORM back = cmsCreateTransform(lab, TYPE_Lab_DBL, rgb, TYPE_RGB_16, (cmsUInt32Number)intent, 0);
    for (int i = 0; i < 50; ++i) {
      unsigned char colour[3] = {(unsigned char)next_number(), (unsigned char)next_number(), (unsigned char)(5 * i)};
      cmsCIELab values, moved;
      cmsCIELCh polar;
      cmsCIEXYZ xyz;
      unsigned short again[3];
      cmsDoTransform(to, colour, &values, 1);
      cmsDoTransform(back, &values, again, 1);
      cmsLab2LCh(&polar, &values);
      cmsLab2XYZ(NULL, &xyz, &values);
      moved = values, moved.a += 3, moved.L /= 2;
      printf("%.6f %.6f %.6f, %.6f, %.6f, %u %u %u, %.6f\n", values.L, values.a, values.b, polar.h, xyz.Y, again[0],
             again[1], again[2], cmsCIE2000DeltaE(&values, &moved, 1, 1, 1));
    }
    cmsDeleteTransform(to), cmsDeleteTransform(back);
  }
  cmsToneCurve *gamma = cmsBuildGamma(NULL, 2.2), *inverse = cmsReverseToneCurve(gamma);
  printf("%.6f %.6f\n", cmsEvalToneCurveFloat(inverse, 0.3f), cmsEstimateGamma(gamma, 0.01));
  return 0;
}
