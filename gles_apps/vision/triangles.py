"""The triangles of the face mesh."""

from __future__ import annotations

import zlib
from base64 import b85decode
from functools import lru_cache

import numpy as np

from gles_apps.vision.skeletons import Edges
from gles_delegate.model.graph import Array

_PACKED = (
    "c-rNab#xTh9>-_n?zVAv7vf6XL)<s6BpY`pZp1yrHtz23o-71+F9ZnEPzt2G=kz>Er0nZE?di$;{WWv%%v|~0?`LB0pJ~"
    "QEbMFY&!WEv@HspS?Y^+-)<(a%fDRxnBZOPiobUoi@>eBwpGgCohj?wjHTggIq1>k4-o;*-|C8#f$9l`(dS}E5eyEFwoT"
    "h*!`pF%3nijoM=W!|P{kMIbHvZafnEpZ%?q;rl1mPOjt0NxqC79)v^;*VLq&I>EV`3Bt~zl{#Qr5?Vo(L8z$EwfIOQ}Kb"
    "z`WEa~;_IF9mMAk*6XT^+U3uxtJFEr~{7Xt#WZ$Cc(159_XrW`b>FF34_g~e^<xz}4pU3(qT%YgC_Ic!tKP%`mtJh&Igi"
    "BQ;e1>ScURpGP(ZIXmS8$M66HHl2wmD3tI(~bRzS^on!zm@Y&6{$Byn}~ydYogKLYyKHLbli&MYxE^^a%|&q0x+#-G{h="
    "lbX1bBrRRv9-_vjsLgSf*p-MuD_8+b!MDePWQH_Dk}imL3disq6}zj6)iC+cN9;j<du)O9@?JFmIza-CaqZ@|<U!Mw?#c"
    "{DIawKLn2#tMQ)f4h1cVI6*~PMsCi3;*%V)r}Vh9a{jsag`VGaFMW;*9$?%r3I6KFh{n8?DC<>`ryy{+@AMl(#y|G8Unh"
    "_;sq^Wel#$hL`I^>}|;+!@Rqs}1A6UXry=*atesb~j1i+i$XNLg$<O@7-cPpZnC$V=vNPJunc2zCjCHaN&C^70CdP^n^U"
    "rVt*mbyECwz;XWm5snQdo`V+|(u~%qG_nc*N+6^8|=}n${G#<eZRq$>OWCaG_wYxJbP(GSo5WZgb7QiP^XJTK8cHG_F&e"
    "-ee?dzZJ8XOwFHkp1SPhit=@<pb@o5xH~o<4j2e(cWOd-wgEuE<Tkd;eiHsr}{EaxfDPFoSPr$Cp7vSY**iM4~d)NydiW"
    "*qtmu{xyVV(Lh<IA%mzQ?jvvGWVJe_L=^RTCt7eipMi}V-6wu_IvguUujWX6SU@Lh+<1KbSiLBOz*R#>s8={WoEs}tj6q"
    "3D-$zbI9*6RaqP=P+Gu4@oAstc_NnDf8Mn;_CZMYCFM~0atf$Cq=vP;z+QwgMaacNZQQZ1IfTgl{+sLrw@P_+cE_<(A3d"
    "Qvp)Sd87iB2ZN_G9pn)h=}A!gd#xoS=70E;3gTf0#7-@!qi$sxrzc-xp{3KUnY}hs94>BX$a8diY|Iuo2;~Ok5&GRuG;u"
    "$%0bAWR3s%@T&!8mGbCPuLR~?EH7F`+y@X>a>#|(sgG<ZzmvtjJ;~ZVJu4y+Hs9@#kNm@C3q?);!;|Nh(hTFHw2pgj3cA"
    "OKeReluX?X9H0#TKC)B{_q=t1%T%+0;Jl5Y@nWPL)m6X1*Z+`YO3?liwT}Dq96as5Y`+r-G(kuhu)+$@;|8AVM`RC4~%?"
    "fvirKK^`Jf*8}DgF0j@5BnsLIna}AK+Xx#{V-;U2v1ykPyHHu^>q?Iqtkfc1kWbQdF?kDwk*&*MGPD{nU|N@EK01hXE@Z"
    "|`f6YOa-_jEFu?0w8&?a4HbU^QLFi@Ki!dsvs=`L#b)2pUY<j%9<ohNA{Hnfe*om2Go?I*@$Y9${1s&75PjW<vfU}-&KH"
    "(Yx_9#am7hTAvSts@Q{KPFy-lg3i?Qu~JAT3&uZVNFhPNoj8tv_F)*RikRbUww57b9!cWZnI)|WOU4IIYqOJwQ6H?tK2J"
    "lu_xvL^Ih4`@v&JOZok0gUdQ|^Oo$NSVGq9ELCJ!sIPi!9|6T(k1bEngE8Tz1e(4;cTtcyD^If>T6W~Jw!@)bGxr}Yola"
    "8tw)Yc<p{e7hD8C>t_t7qMDm?WK?Z_p+bUYAJ9@U{-!7k^t0QGDo2F1AM1u<5+)RN+UrEx4)|sG0RfNqb`u-l^6&V&&Bv"
    ">i*DF#0)o#s%I9G(t6WKOn!m$zK=@KPijRkCZe-N#WR)XSoqUFu+$XJ+BEEO5D;qkuEDN5+<3Rwl*qi>jnv+S0fhEO%6G"
    "dknB&rJI%K|h^x!c<d+)|?Beh4N^X6*(6@>QMZ@o;CiNpp&@ofnyU3kK@iHzJkN{ULYyGcVZvTCX{crm^xmys0~kmC6fZ"
    "lYbN)x*JL(A4S&+#~wvy!?!mZQ-=*F=`wWCgk9z&#A3i^_sC}pmvHzF-yUKRZiiS;*N`ajb%!P`L=o!vea_8cAxWV)y`)"
    "QNP^iG2*!-Lt>*cP7A`pj($M;I&AE|5x3&`_YE@F#@CgV7Oq!DW)cZZx(mb)2a*?6(C_;p)EM_SO1IyKSK;3^~a(oIAs*"
    "TDaWT-x|uJ)vKAtIGMxah^~@XNtCbRW!EX$n8Us5kg`P(wgF%xtd-C1R-XI)dx(rG<cXnAKX^Un2#a#sUE#WC5VxFaA@9"
    "Zhug~pT6+>D8TU_2L8|lpfoPxDdf~oobI>Y)5_})D+Z21aNITmC@?(wK5!f_R8Ge?*oRRaCUyE4ow(ruswjTE$44^-d_M"
    "y4U0Oi@TYXC$0Q$diAn?x{5I`weKepd#&D1e#27trI{l5kTob)p~)D0ZTC<-n;vGLo&PGhD{bl>;5{ux?-_6I_V)Nikfo"
    "Ba"
)
"""For each corner of a triangle, its index in all triangles: the low bytes, then the high bytes."""


@lru_cache(maxsize=1)
def face_mesh_edges() -> Edges:
    """The sides of `face_triangles`, each once."""
    triangles = face_triangles()
    sides = np.concatenate([triangles[:, [i, (i + 1) % 3]] for i in range(3)])
    return tuple((a, b) for a, b in np.unique(np.sort(sides, 1), axis=0).tolist())


def face_triangles() -> Array:
    """The corners of 852 triangles between the first 468 points of a face: int [852, 3].

    They are MediaPipe's FACE_LANDMARKS_TESSELATION
    (mediapipe/tasks/python/vision/face_landmarker.py), in its order.
    """
    low, high = np.frombuffer(zlib.decompress(b85decode(_PACKED)), np.uint8).reshape(2, 3, -1)
    return np.asarray((low + 256 * high.astype(int)).T)
